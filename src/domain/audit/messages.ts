// The invariants of messages: a sent message has a reference, its recipients agree with its status, and each change of
// its status has an event.
import { unionAll, type Fragment, type Sql, type Tx } from '#core/db.ts'
import { noFigures, noResource, type AuditScope, type Checks } from './checks.ts'
import { announcedTimes } from './events.ts'

function messages(sql: Sql | Tx, scope: AuditScope): Fragment {
  const status_checks = sql`
    select finding.problem, p.tenant_id, 'message' as resource, p.id as resource_id, p.id::text as id, p.status as what,
      ${noFigures(sql)}
    from ${scope.rowsOf('message')} p
    cross join lateral (
      select bool_and(r ->> 'status' is not distinct from 'suppressed') as all_suppressed,
        bool_or(r ->> 'status' in ('accepted', 'delivered', 'bounced')) as any_accepted,
        bool_or(r ->> 'status' = 'delivered') as any_arrived,
        bool_and(coalesce(r ->> 'status' in ('refused', 'suppressed', 'bounced'), false)) as all_failed
      from jsonb_array_elements(p.recipients) r
    ) r
    cross join lateral (values
      ('a sent message has no provider reference', p.status in ('sent', 'delivered', 'undelivered')
        and p.provider_reference is null
        -- The provider answered with the id of another message.
        and not (p.channel = 'sms' and p.provider_status is not null)),
      ('an unsent message was accepted by a recipient', p.status in ('scheduled', 'queued', 'canceled', 'suppressed')
        and (p.provider_reference is not null or r.any_accepted is true)),
      ('a suppressed message has a recipient', (p.status = 'suppressed') <> (r.all_suppressed is true)
        and p.status <> 'canceled'),
      ('no recipient has the status of the message', p.channel = 'email' and (
        (p.status in ('sent', 'delivered') and r.any_accepted is not true)
        or (p.status = 'delivered' and r.any_arrived is not true)
        or (p.status = 'undelivered' and r.all_failed is not true))),
      ('a text was erased before its message was settled', p.content is null
        and p.status in ('scheduled', 'queued', 'sending')),
      ('an erased message has a text', (p.content is null) <> (p.redacted_at is not null))
    ) as finding(problem, violated)
    where finding.violated`
  const attachment_checks = sql`
    select 'the attachments of a message with an erased text remain' as problem, p.tenant_id, 'message' as resource,
      p.id as resource_id, p.id::text as id, p.status as what, ${noFigures(sql)}
    from ${scope.rowsOf('message')} p
    where p.content is null and exists (
      select from message_attachments a where a.tenant_id = p.tenant_id and a.message_id = p.id offset 0)`
  return unionAll(sql, [status_checks, attachment_checks])
}

/** The current status has exactly one event; a status that the message may have had before has at most one. */
function messageEvents(sql: Sql | Tx, scope: AuditScope): Fragment {
  const present = (status: string) => sql`(p.status = ${status})::integer::bigint`
  const required = sql`
    values
    ('message.created', 1 - ${present('received')}, 1 - ${present('received')}),
    ('message.received', ${present('received')}, ${present('received')}),
    ('message.canceled', ${present('canceled')}, ${present('canceled')}),
    ('message.sent', ${present('sent')}, 1::bigint),
    ('message.delivered', ${present('delivered')}, 1::bigint),
    ('message.undelivered', ${present('undelivered')}, 1::bigint),
    ('message.unknown', ${present('unknown')}, 1::bigint),
    -- Two events are possible: after a message was settled as failed, the provider may report that it accepted the
    -- message, and later that the message failed.
    ('message.failed', ${present('failed')}, 2::bigint)`
  return announcedTimes(sql, scope, 'message', required)
}

/** The message that caused a suppression exists in its tenant. */
function suppressions(sql: Sql | Tx, { tenant_condition }: AuditScope): Fragment {
  return sql`
    select 'a suppression references a missing message' as problem, s.tenant_id, ${noResource(sql)},
      s.id::text as id, s.reason as what, ${noFigures(sql)}
    from (select tenant_id, id, reason, message_id from suppressions where ${tenant_condition}
      and message_id is not null) s
    where not exists (
      select from messages m where m.tenant_id = s.tenant_id and m.id = s.message_id offset 0)`
}

export const checksOfMessages: Checks = { messages, message_events: messageEvents }
export const checksOfSuppressions: Checks = { suppressions }

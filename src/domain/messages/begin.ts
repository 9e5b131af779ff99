// The last check before a message is sent: canceled messages and suppressed recipients are skipped.
import type { Channel } from '#core/addresses.ts'
import { newId } from '#core/ids.ts'
import type { Fragment, Sql } from '#core/db.ts'
import type { MessageFailure } from '#core/outcome.ts'
import { insertingEvents } from '../events.ts'
import { messageColumns } from './find.ts'
import type { MessageStatus, StoredRecipient } from './message.ts'
import { awaitsRetry } from './resource.ts'

export type MessageToBegin = { job_id: string; lease_token: string; tenant_id: string; message_id: string }

/** The state of a message. */
export type MessageState = {
  status: MessageStatus
  provider_reference: string | null
  failure: MessageFailure | null
  recipients: StoredRecipient[]
}

/** A message with everything that its job needs to send it or look it up. */
export type MessageToSend = MessageState & {
  /** Whether the job may send the message in this attempt. If not, the status shows the reason. */
  may_send: boolean
  /** Sealed. */
  envelope: string
  /** Sealed; null once it is erased. */
  content: string | null
  /** The scheduled time of sending, or the real time if that is earlier, in Unix seconds. */
  scheduled_s: number
  /** The domains from which its tenant may send email; null: the domains of the installation. */
  email_domains: string[] | null
}

/**
 * Marks messages as `sending`, before the call to their provider, and marks recipients that are suppressed by now. A
 * message without remaining recipients is `suppressed`. A marked message is never sent again unless it is settled as
 * not sent, or an earlier attempt marked it and no attempt before this one can have sent it. A message that was sent is
 * sent once more to its deferred recipients, which are marked too; an event reports those that are suppressed by now.
 * Returns the messages by job id, for the jobs with a valid lease.
 */
export async function beginMessages(
  sql: Sql,
  messages: MessageToBegin[],
): Promise<Map<string, MessageToSend>> {
  const items = messages.map((message) => ({ ...message, event_id: newId() }))
  const rows = await sql<(MessageToSend & { job_id: string })[]>`
    with fenced as (
      select l.*, j.* from (
        select * from jsonb_to_recordset(${sql.json(items)}) as l(
          job_id uuid, lease_token uuid, tenant_id uuid, message_id uuid, event_id uuid)
        order by job_id
      ) l
      cross join lateral (
        select j.started_at, (j.first_sent_at = j.last_sent_at and not j.in_doubt) is true as was_never_sent
        from jobs j where j.id = l.job_id and j.lease_token = l.lease_token and j.lease_until > now() for update
      ) j
    ), locked as (
      select h.job_id, h.event_id, h.was_never_sent, h.started_at as attempt_started_at, m.*
      from (select * from fenced order by tenant_id, message_id) h
      cross join lateral (
        select * from messages m where m.tenant_id = h.tenant_id and m.id = h.message_id for update
      ) m
    ), first_send as (
      select m.*, m.status in ('scheduled', 'queued')
        or (m.status = 'sending' and m.was_never_sent and m.begun_at < m.attempt_started_at) as is_first_send
      from locked m
    ), sendable as (
      select m.*, m.is_first_send or (m.status in ('sent', 'delivered', 'undelivered')
        and ${awaitsRetry(sql, 'm')}) as may_send
      from first_send m
    ), checked as (${checkingSuppressions(sql)}), m as (
      update messages m set recipients = checked.recipients,
        status = case when not checked.is_first_send then m.status when checked.open > 0 then 'sending'
          when checked.refused is null then 'suppressed' else 'failed' end,
        -- The message failed: the server refused at least one recipient in an earlier attempt, and the other recipients
        -- are suppressed by now.
        failure = case when checked.is_first_send and checked.open = 0 and checked.refused is not null
          then jsonb_build_object('code', 'recipient_refused', 'message', coalesce(checked.refused ->> 'message', ''),
            'provider_code', checked.refused -> 'code') else m.failure end,
        begun_at = clock_timestamp(), updated_at = clock_timestamp()
      from checked where m.tenant_id = checked.tenant_id and m.id = checked.id
      returning m.*, checked.event_id, checked.is_first_send, checked.settled, checked.open as recipients_left
    ), event as (${insertingEvents(
      sql,
      'message',
      sql`
      select ${messageColumns(sql, [])}, event_id,
        case when is_first_send then 'message.' || status else 'message.recipients_settled' end as event,
        case when is_first_send then recipients else settled end as recipients
      from m where case when is_first_send then status in ('suppressed', 'failed') else settled is not null end`,
    )})
    select l.job_id, l.may_send and m.recipients_left > 0 as may_send, coalesce(m.status, l.status) as status,
      l.envelope, l.content, coalesce(m.recipients, l.recipients) as recipients, l.provider_reference,
      coalesce(m.failure, l.failure) as failure,
      extract(epoch from least(coalesce(l.send_at, l.created_at), now()))::float8 as scheduled_s,
      (select t.email_domains from tenants t where t.id = l.tenant_id and l.channel = 'email') as email_domains
    from sendable l left join m on m.tenant_id = l.tenant_id and m.id = l.id`
  return new Map(rows.map(({ job_id, ...message }) => [job_id, message]))
}

/**
 * Marks the recipients of each begun message that are suppressed by now. `settled`: the suppressed recipients that were
 * deferred; `open`: the number of recipients that still get the message; `refused`: the first refused recipient.
 */
function checkingSuppressions(sql: Sql): Fragment {
  return sql`
    select l.tenant_id, l.id, l.event_id, l.is_first_send, r.*
    from sendable l
    cross join lateral (
      select jsonb_agg(
          case
            when s.found then (e.recipient - 'deferred') || '{"status": "suppressed", "code": null, "message": null}'
            when e.recipient ->> 'deferred' = 'waiting' then e.recipient || '{"deferred": "trying"}'
            else e.recipient end order by e.nth
        ) as recipients,
        jsonb_agg(
          (e.recipient - 'deferred') || '{"status": "suppressed", "code": null, "message": null}' order by e.nth
        ) filter (where s.found and e.recipient ->> 'deferred' = 'waiting') as settled,
        count(*) filter (where s.found is null and e.recipient ->> 'status' is null
          and e.recipient ->> 'deferred' is distinct from 'unknown') as open,
        jsonb_path_query_first(jsonb_agg(e.recipient), '$[*] ? (@.status == "refused")') as refused
      from jsonb_array_elements(l.recipients) with ordinality as e(recipient, nth)
      left join lateral (
        select true as found from suppressions s
        where s.tenant_id = l.tenant_id and s.channel = l.channel and s.address = e.recipient ->> 'address'
          and s.deleted_at is null and e.recipient ->> 'status' is null limit 1
      ) s on true
    ) r
    where l.may_send`
}

/** The current state of a message; undefined when there is none. */
export async function findMessageState(
  sql: Sql,
  { tenant_id, message_id }: { tenant_id: string; message_id: string },
): Promise<(MessageState & { channel: Channel }) | undefined> {
  const [row] = await sql<(MessageState & { channel: Channel })[]>`
    select channel, status, provider_reference, failure, recipients from messages
    where tenant_id = ${tenant_id} and id = ${message_id}`
  return row
}

/** The attachments of a message, sealed, in their order. */
export async function findAttachments(
  sql: Sql,
  { tenant_id, message_id }: { tenant_id: string; message_id: string },
): Promise<string[]> {
  const rows = await sql<{ content: string }[]>`
    select content from message_attachments where tenant_id = ${tenant_id} and message_id = ${message_id} order by nth`
  return rows.map(({ content }) => content)
}

// The parts of a settlement that compute the new state of each message and of its recipients.
import type { Fragment, Sql, Tx } from '#core/db.ts'
import type { MessageFailure } from '#core/outcome.ts'
import { isOpenMessage } from './resource.ts'
import type { MessageUpdate } from './update.ts'

/** The ranks of SMS statuses: an update may only increase the rank. */
const SMS_RANKS = { sent: 1, undelivered: 2, failed: 2, delivered: 3 }
/** Outcomes of an email recipient in ascending rank: the higher rank wins in any order of arrival. */
const RECIPIENT_RANKS = ['accepted', 'delivered', 'bounced', 'refused', 'suppressed']
const BOUNCE_FAILURE: MessageFailure = {
  code: 'recipient_refused',
  message: 'The message bounced.',
  provider_code: null,
}

/** The rank of a reported SMS status; 0 for other reports. */
export function rankOfSms(reported: MessageUpdate['reported']): number {
  return Object.entries(SMS_RANKS).find(([each]) => each === reported)?.[1] ?? 0
}

/** The part `locked`: the updates, each with its locked message. */
export function lockingMessages(sql: Sql | Tx): Fragment {
  return sql`
    locked as (
      select updates.*, m.channel, m.status as status_before, m.failure as failure_before,
        m.recipients as recipients_before,
        ${isOpenMessage(sql, 'm')} as was_open,
        case m.status when 'sent' then ${SMS_RANKS.sent}::integer when 'delivered' then ${SMS_RANKS.delivered}::integer
          when 'undelivered' then ${SMS_RANKS.undelivered}::integer
          -- Without a reported status only our call failed: the provider may have accepted the message, so any report
          -- ranks higher.
          when 'failed' then case when m.provider_status is null then 0 else ${SMS_RANKS.failed}::integer end
          else 0 end as rank_before,
        m.channel = 'email' and case
          when m.status in ('sent', 'delivered', 'undelivered') then true
          when m.status in ('sending', 'unknown') then updates.reported in ('sent', 'recipient_update')
          when m.status in ('scheduled', 'queued', 'failed')
            then updates.reported = 'recipient_update' and updates.some_delivered
          else false end as was_sent
      from (select * from updates order by tenant_id, message_id) updates
      cross join lateral (
        select * from messages m where m.tenant_id = updates.tenant_id and m.id = updates.message_id for update
      ) m
    )`
}

/** The parts from `recipient` to `recipient_summary`: the new state of each recipient, and the counts per message. */
export function updatingRecipients(sql: Sql | Tx): Fragment {
  return sql`
    recipient as (
      select locked.job_id, locked.recipient_event, locked.was_sent, e.nth, e.recipient_before,
        report.recipient as report,
        locked.was_sent or (locked.reported = 'refused' and locked.was_open)
          or (locked.reported = 'queued' and locked.status_before = 'sending') as applies,
        locked.status_before in ('sending', 'unknown') as was_sending
      from locked
      cross join lateral jsonb_array_elements(locked.recipients_before) with ordinality as e(recipient_before, nth)
      left join lateral (
        select n.recipient from jsonb_array_elements(locked.recipients_reported) as n(recipient)
        where n.recipient ->> 'address' = e.recipient_before ->> 'address' limit 1
      ) report on true
    ), updated_recipient as (
      select recipient.*, case
          when applies and recipient_before ->> 'status' is null and report ? 'deferred' then recipient_before || report
          when applies and ${rankOfRecipient(sql, sql`report`)} > ${rankOfRecipient(sql, sql`recipient_before`)}
            then report
          when was_sent and recipient_before ->> 'status' is null and (was_sending or not recipient_before ? 'deferred')
            then (recipient_before - 'deferred') || '{"status": "accepted", "code": null, "message": null}'
          else recipient_before end as recipient_after
      from recipient
    ), recipient_summary as (
      select job_id, jsonb_agg(recipient_after order by nth) as recipients_after,
        count(*) filter (where coalesce(recipient_after ->> 'status', '') not in ('refused', 'suppressed'))
          as reachable_count,
        count(*) filter (where recipient_after ->> 'status' = 'delivered') as delivered_count,
        count(*) filter (where recipient_after ->> 'status' = 'bounced') as bounced_count,
        jsonb_agg(recipient_after order by nth) filter (where case recipient_event
          when 'message.recipients_settled' then recipient_before ->> 'deferred' = 'trying'
            and recipient_after ->> 'deferred' is distinct from 'trying'
            and recipient_after ->> 'deferred' is distinct from 'waiting'
          when 'message.complained' then recipient_after ->> 'code' = 'complaint'
            and recipient_before ->> 'code' is distinct from 'complaint'
          else recipient_after ->> 'status' = 'bounced'
            and recipient_before ->> 'status' is distinct from 'bounced' end) as changed_recipients
      from updated_recipient group by job_id
    )`
}

/** The parts `message_outcome` and `transition`: the new status of each message, and its consequences. */
export function computingTransitions(sql: Sql | Tx): Fragment {
  return sql`
    message_outcome as (
      select *, case
          when was_sent and reachable_count > 0 and bounced_count = reachable_count then 'undelivered'
          when was_sent and delivered_count > 0 and delivered_count + bounced_count = reachable_count then 'delivered'
          when was_sent then 'sent'
          when channel = 'sms' and rank > rank_before and status_before not in ('canceled', 'suppressed') then reported
          when reported = 'queued' and status_before = 'sending' then 'queued'
          when reported = 'refused' and was_open then 'failed'
          when reported = 'unknown' and status_before = 'sending' then 'unknown'
          else status_before end as status_after
      from locked join recipient_summary using (job_id)
    ), transition as (
      select *, status_after <> status_before as changes_status,
        status_after in ('sent', 'delivered', 'undelivered') as is_accepted,
        reported = 'unresolved' and status_before = 'unknown' as becomes_unresolvable,
        was_sent and recipient_event is not null and changed_recipients is not null as has_recipient_event,
        case when status_after = 'undelivered' then coalesce(failure, ${sql.json(BOUNCE_FAILURE)}::jsonb)
          else failure end as failure_after
      from message_outcome
    )`
}

/** The rank of a recipient's outcome. A complaint ranks above a bounce. */
function rankOfRecipient(sql: Sql | Tx, recipient: Fragment): Fragment {
  return sql`(
    coalesce(array_position(${RECIPIENT_RANKS}::text[], ${recipient} ->> 'status'), 0) * 2
    + (${recipient} ->> 'code' is not distinct from 'complaint')::integer)`
}

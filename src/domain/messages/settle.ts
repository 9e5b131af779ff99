// Settles updates of messages: one statement updates the message, suppresses addresses, inserts events and ends the
// job.
import { newId, SYSTEM_TENANT_ID } from '#core/ids.ts'
import { isDuplicateReference, type Fragment, type Sql, type Tx } from '#core/db.ts'
import { ERRORS } from '#core/errors.ts'
import type { MessageFailure } from '#core/outcome.ts'
import { sendEmail } from '#jobs/messages.ts'
import { insertEvents } from '../events.ts'
import { finishing, fencing, type FailedRow, type Settlement } from '../jobs/settle.ts'
import { assigning } from '../notifications/settle.ts'
import { suppressing } from '../suppressions/settle.ts'
import { messageColumns } from './find.ts'
import { OPEN_MESSAGE_STATUSES } from './message.ts'
import { awaitsRetry, isOpenMessage } from './resource.ts'
import { emptyMessageUpdate, type MessageUpdate } from './update.ts'

/** The settlement of a job with an update of a message, and with the notification that reported the update, if any. */
export type MessageSettlement = Settlement & {
  update: MessageUpdate
  notification_id: string | null
  /** When the notification was received; null for an update by an attempt. */
  happened_at: string | null
}

/** The error code of a message that was not sent, for a waiting caller. */
export const SEND_FAILED = { email: 'email_send_failed', sms: 'sms_send_failed' } as const

/** The ranks of SMS statuses: an update may only increase the rank. */
const SMS_RANKS = { sent: 1, undelivered: 2, failed: 2, delivered: 3 }
/** Outcomes of an email recipient in ascending rank: the higher rank wins in any order of arrival. */
const RECIPIENT_RANKS = ['accepted', 'delivered', 'bounced', 'refused', 'suppressed']
const BOUNCE_FAILURE: MessageFailure = {
  code: 'recipient_refused',
  message: 'The message bounced.',
  provider_code: null,
}
/** The time from the sending of an SMS to the first lookup of its delivery. */
const FIRST_LOOKUP_DELAY = '1 minute'

/**
 * Settles jobs with updates of messages, in one statement. The settlements of one call must be of different messages.
 * Updates may arrive late, twice and in any order: the result is the same. A message that its provider accepted
 * counts as sent, even after it was settled as failed. A message that was canceled or suppressed before sending stays
 * so. A reported reference of another message is ignored, and the rest of the update is applied. A reference from a
 * search identifies that other message: the update is refused, and the duplicate reference error is thrown. If a
 * notification settles a message, its waiting job becomes due at once, and ends. Returns the ids of the jobs with a
 * valid lease; for other jobs nothing is written.
 */
export async function settleMessages(sql: Sql | Tx, settlements: MessageSettlement[]): Promise<Set<string>> {
  try {
    return await settleUpdates(sql, settlements)
  } catch (error) {
    const [{ update, ...settlement }] = settlements as [MessageSettlement]
    if (settlements.length > 1 || update.found || !isDuplicateReference(error)) throw error
    const without_reference = {
      ...settlement,
      provider_reference: null,
      update: { ...update, provider_reference: null },
    }
    return await settleUpdates(sql, [without_reference])
  }
}

async function settleUpdates(sql: Sql | Tx, settlements: MessageSettlement[]): Promise<Set<string>> {
  const items = settlements.map(({ update, notification_id, happened_at, ...settlement }) => {
    const { suppresses, event, recipients, ...facts } = update
    return {
      ...settlement,
      change: {
        ...facts,
        suppresses: suppresses.map((each) => ({ ...each, suppression_event_id: newId() })),
        rank: rankOfSms(update.reported),
        recipients_reported: recipients,
        some_delivered: recipients.some(({ status }) => status === 'delivered'),
        notification_id,
        happened_at,
        status_event_id: newId(),
        recipient_event: event,
        recipient_event_id: newId(),
      },
    }
  })
  const rows = await sql<{ id: string }[]>`
    with ${fencing(sql, items)},
    updates as (
      select fenced.job_id, c.* from fenced cross join lateral jsonb_to_record(fenced.change) as c(
        tenant_id uuid, message_id uuid, reported text, provider_reference text, provider_status text, failure jsonb,
        price jsonb, recipients_reported jsonb, suppresses jsonb, rank integer, some_delivered boolean,
        notification_id uuid, happened_at timestamptz, status_event_id uuid, recipient_event text,
        recipient_event_id uuid)
    ),
    ${lockingMessages(sql)},
    ${updatingRecipients(sql)},
    ${computingTransitions(sql)},
    m as (
      update messages m set recipients = s.recipients_after, status = s.status_after,
        provider_reference = coalesce(m.provider_reference, s.provider_reference),
        provider_status = case when s.rank > 0 and s.rank >= s.rank_before
          then coalesce(s.provider_status, m.provider_status) else m.provider_status end,
        failure = case when not (s.changes_status or s.becomes_unresolvable) then s.failure_before
          when s.status_after in ('failed', 'undelivered', 'unknown') then s.failure_after end,
        price = coalesce(s.price, m.price),
        sent_at = case when s.is_accepted then coalesce(m.sent_at, clock_timestamp()) else m.sent_at end,
        delivered_at = case when s.status_after = 'delivered' then coalesce(m.delivered_at, clock_timestamp())
          else m.delivered_at end,
        content = case when ${hasEndedInvitation(sql)} then null else m.content end,
        redacted_at = case when ${hasEndedInvitation(sql)} then coalesce(m.redacted_at, clock_timestamp())
          else m.redacted_at end,
        lookup_at = case when not s.changes_status then m.lookup_at
          when s.channel = 'sms' and s.is_accepted and (s.status_after = 'sent' or coalesce(s.price, m.price) is null)
            then clock_timestamp() + ${FIRST_LOOKUP_DELAY}::interval end,
        updated_at = case when s.changes_status or s.reported = 'unresolved' or s.price is not null
          or s.recipients_after <> m.recipients then clock_timestamp() else m.updated_at end
      from transition s where m.tenant_id = s.tenant_id and m.id = s.message_id
      returning m.*, s.job_id, s.changes_status, s.notification_id, s.status_event_id, s.recipient_event_id,
        case when s.has_recipient_event then s.recipient_event end as recipient_event, s.changed_recipients
    ),
    event as (${insertEvents(sql, 'message', newEvents(sql))}),
    ${suppressing(sql, newSuppressions(sql))},
    ${assigning(sql, 'message')},
    ${resumingJobs(sql)},
    ${finishing(sql, retryDelay(sql))}
    select id from job`
  return new Set(rows.map((row) => row.id))
}

/** Whether an invitation email is final. Its content is erased then, because its link is a secret of the recipient. */
function hasEndedInvitation(sql: Sql | Tx): Fragment {
  return sql`(
    m.tenant_id = ${SYSTEM_TENANT_ID} and m.idempotency_key like 'invitation %'
    and s.status_after not in ${sql(OPEN_MESSAGE_STATUSES)})`
}

/** The rank of a reported SMS status; 0 for other reports. */
function rankOfSms(reported: MessageUpdate['reported']): number {
  return Object.entries(SMS_RANKS).find(([each]) => each === reported)?.[1] ?? 0
}

/** The part `locked`: the updates, each with its locked message. */
function lockingMessages(sql: Sql | Tx): Fragment {
  return sql`
    locked as (
      select updates.*, m.channel, m.status as status_before, m.failure as failure_before,
        m.recipients as recipients_before,
        ${isOpenMessage(sql, 'm')} as was_open,
        case m.status when 'sent' then ${SMS_RANKS.sent}::integer when 'delivered' then ${SMS_RANKS.delivered}::integer
          when 'undelivered' then ${SMS_RANKS.undelivered}::integer
          -- If only our call failed, the provider may have accepted the message.
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
function updatingRecipients(sql: Sql | Tx): Fragment {
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
function computingTransitions(sql: Sql | Tx): Fragment {
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

/** The suppressions that the updates cause. */
function newSuppressions(sql: Sql | Tx): Fragment {
  return sql`
    select transition.tenant_id, x.suppression_id, x.suppression_event_id, transition.channel, x.address, x.sealed,
      x.reason, transition.message_id, coalesce(transition.happened_at, fenced.started_at) as happened_at
    from transition join fenced on fenced.job_id = transition.job_id
    cross join lateral jsonb_to_recordset(transition.suppresses) as x(
      suppression_id uuid, suppression_event_id uuid, address text, sealed text, reason text)`
}

/** The events of a new status, and of changed recipients; the latter show only the changed recipients. */
function newEvents(sql: Sql | Tx): Fragment {
  return sql`
    select ${messageColumns(sql, [])}, e.event_id, e.event, e.recipients from m
    cross join lateral (values
      (m.status_event_id, 'message.' || m.status,
        m.changes_status and m.status in ('sent', 'delivered', 'undelivered', 'failed', 'unknown'), m.recipients),
      (m.recipient_event_id, m.recipient_event, m.recipient_event is not null, m.changed_recipients)
    ) as e(event_id, event, happened, recipients)
    where e.happened`
}

/**
 * Makes the waiting jobs of messages due that a notification settled. A locked job is running, and settles after this
 * statement.
 */
function resumingJobs(sql: Sql | Tx): Fragment {
  return sql`
    waiting_job as (
      select j.tenant_id, j.id from m
      cross join lateral (
        select j.tenant_id, j.id from jobs j
        where j.tenant_id = m.tenant_id and j.subject_id = m.id and j.state in ('ready', 'unknown')
          and j.run_at > now() for update skip locked
      ) j
      where m.notification_id is not null and m.changes_status and ${isFinished(sql)}
    ), resumed_job as (
      -- A job without attempts left gets one more, which ends it.
      update jobs j set run_at = now(), wakeup_sent_at = null, max_attempts = greatest(j.max_attempts, j.attempt + 1)
      from waiting_job where j.tenant_id = waiting_job.tenant_id and j.id = waiting_job.id
    )`
}

/** Whether the message `m` needs no further attempt. */
function isFinished(sql: Sql | Tx): Fragment {
  return sql`(not ${isOpenMessage(sql, 'm')} and not ${awaitsRetry(sql, 'm')})`
}

/** The delay of a job. A job whose message is finished is due at once, because its next attempt ends it. */
function retryDelay(sql: Sql | Tx): Fragment {
  return sql`
    case when fenced.job_id in (select job_id from m where ${isFinished(sql)})
      then 0 else fenced.delay_ms end`
}

/** Settles a message that an operator resolved as not sent. */
export async function settleMessageAsFailed(
  tx: Tx,
  settlement: Settlement,
  { tenant_id, id: message_id, operation, failure: { message } }: FailedRow,
): Promise<void> {
  const failure: MessageFailure = { code: 'provider_error', message, provider_code: null }
  const code = SEND_FAILED[operation === sendEmail.call.operation ? 'email' : 'sms']
  const error = { code, message: ERRORS[code][1], provider_message: message }
  const update: MessageUpdate = {
    ...emptyMessageUpdate,
    tenant_id,
    message_id,
    reported: 'refused',
    failure,
  }
  await settleMessages(tx, [{ ...settlement, error, update, notification_id: null, happened_at: null }])
}

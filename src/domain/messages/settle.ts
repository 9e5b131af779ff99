// Settles updates of messages: one statement updates the message, suppresses addresses, inserts events and ends the
// job.
import { newId, SYSTEM_TENANT_ID } from '#core/ids.ts'
import { isDuplicateReference, type Fragment, type Sql, type Tx } from '#core/db.ts'
import { ERRORS } from '#core/errors.ts'
import type { MessageFailure } from '#core/outcome.ts'
import { sendEmail } from '#jobs/messages.ts'
import { insertingEvents } from '../events.ts'
import { finishing, fencing, type FailedRow, type Settlement } from '../jobs/settle.ts'
import { assigning } from '../notifications/settle.ts'
import { suppressing } from '../suppressions/settle.ts'
import { messageColumns } from './find.ts'
import { OPEN_MESSAGE_STATUSES } from './message.ts'
import { awaitsRetry, isOpenMessage } from './resource.ts'
import { computingTransitions, lockingMessages, rankOfSms, updatingRecipients } from './transition.ts'
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

/** The time from the sending of an SMS to the first lookup of its delivery. */
const FIRST_LOOKUP_DELAY = '1 minute'

/**
 * Settles jobs with updates of messages, in one statement. The settlements of one call must be of different messages.
 * Updates may arrive late, twice and in any order: the result is the same. A message that its provider accepted counts
 * as sent, even after it was settled as failed. A message that was canceled or suppressed before sending stays so. If a
 * notification settles a message, the message's waiting job becomes due at once, and its next attempt ends it.
 *
 * An update may have the provider reference of another message. If the provider reported this reference, the reference
 * is ignored, and the rest of the update is applied. If the reference comes from a search, nothing is written, and an
 * error is thrown: another search may find another message.
 *
 * Returns the ids of the jobs that passed the fence; for other jobs nothing is written.
 */
export async function settleMessages(sql: Sql | Tx, settlements: MessageSettlement[]): Promise<Set<string>> {
  try {
    return await settleUpdates(sql, settlements)
  } catch (error) {
    const [{ update, ...settlement }] = settlements as [MessageSettlement]
    if (settlements.length > 1 || !isDuplicateReference(error)) throw error
    if (update.found) throw new Error('the SMS that was found is that of another message', { cause: error })
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
    event as (${insertingEvents(sql, 'message', newEvents(sql))}),
    ${suppressing(sql, newSuppressions(sql))},
    ${assigning(sql, 'message')},
    ${resumingJobs(sql)},
    ${finishing(sql, settlements, retryDelay(sql))}
    select id from job`
  return new Set(rows.map((row) => row.id))
}

/**
 * Whether an invitation email is final. The content of a final email is erased, because its link is a secret of the
 * recipient.
 */
function hasEndedInvitation(sql: Sql | Tx): Fragment {
  return sql`(
    m.tenant_id = ${SYSTEM_TENANT_ID} and m.idempotency_key like 'invitation %'
    and s.status_after not in ${sql(OPEN_MESSAGE_STATUSES)})`
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
 * If a notification settled a message, makes the waiting job of the message due. A locked job is running, and settles
 * after this statement.
 */
function resumingJobs(sql: Sql | Tx): Fragment {
  return sql`
    waiting_job as (
      select j.tenant_id, j.id from m
      cross join lateral (
        select j.tenant_id, j.id from jobs j
        where j.tenant_id = m.tenant_id and j.resource_id = m.id and j.state in ('ready', 'unknown')
          and j.run_at > now() for update skip locked
      ) j
      where m.notification_id is not null and m.changes_status and ${isFinished(sql)}
    ), resumed_job as (
      -- A job without remaining attempts gets one more, which ends the job.
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

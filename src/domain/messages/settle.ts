// Settles messages by what became known of them: one statement moves the message on, suppresses whom it must no longer
// reach, announces it and ends the job.
import { newId, SYSTEM_TENANT_ID } from '#core/ids.ts'
import { isTakenReference, type Fragment, type Sql, type Tx } from '#core/db.ts'
import { ERRORS } from '#core/errors.ts'
import type { MessageFailure } from '#core/outcome.ts'
import { sendEmail } from '#jobs/messages.ts'
import { announce } from '../events.ts'
import { finishing, holding, type FailedRow, type Settlement } from '../jobs/settle.ts'
import { filing } from '../notifications/settle.ts'
import { suppressing } from '../suppressions/settle.ts'
import { messageColumns } from './find.ts'
import { OPEN_MESSAGE_STATUSES } from './message.ts'
import { awaitsAnother, isOpenMessage } from './subject.ts'
import { nothingReportedOfMessage, type MessageTold } from './told.ts'

/**
 * The settlement of a job with what it was told of a message, and with the notification that brought this, if one did.
 */
export type MessageSettlement = Settlement & {
  told: MessageTold
  notification_id: string | null
  /** When that was received; null: the attempt found it out. */
  happened_at: string | null
}

/** The error for a caller who waits for a message that was not sent. */
export const SEND_FAILED = { email: 'email_send_failed', sms: 'sms_send_failed' } as const

/** How far an SMS has come at its provider: what is told of it moves only forward. */
const SMS_RANKS = { sent: 1, undelivered: 2, failed: 2, delivered: 3 }
/** What became of a recipient of an email, in an order such that the later word counts whichever comes first. */
const RECIPIENT_RANKS = ['accepted', 'delivered', 'bounced', 'refused', 'suppressed']
const CAME_BACK: MessageFailure = {
  code: 'recipient_refused',
  message: 'It came back.',
  provider_code: null,
}
/** How long after it was sent the provider is first asked what has become of an SMS. */
const ASKED_AFTER = '1 minute'

/**
 * Settles jobs that were told something of a message, in one statement. No two settlements of one call may be of the
 * same message. Words may come late, twice and in any order: the result is the same. What its provider has taken was
 * sent, also where we took it for failed; what was canceled or suppressed before it left stays so. An id that is that of
 * another message is not believed, and what else was said is; but one that was found by a search is that other message,
 * so all of it is refused (throws `isTakenReference`). The job of a message that a notification has settled is due at once,
 * and ends. Returns the ids of the jobs whose lease was still ours; for the others nothing was written.
 */
export async function settleMessages(sql: Sql | Tx, settlements: MessageSettlement[]): Promise<Set<string>> {
  try {
    return await settleTold(sql, settlements)
  } catch (error) {
    const [{ told, ...settlement }] = settlements as [MessageSettlement]
    if (settlements.length > 1 || told.found || !isTakenReference(error)) throw error
    const unbelieved = {
      ...settlement,
      provider_reference: null,
      told: { ...told, provider_reference: null },
    }
    return await settleTold(sql, [unbelieved])
  }
}

async function settleTold(sql: Sql | Tx, settlements: MessageSettlement[]): Promise<Set<string>> {
  const items = settlements.map(({ told, notification_id, happened_at, ...settlement }) => {
    const { suppresses, event, recipients, ...facts } = told
    return {
      ...settlement,
      change: {
        ...facts,
        suppresses: suppresses.map((each) => ({ ...each, suppression_event_id: newId() })),
        rank: rankOfSms(told.said),
        recipients_told: recipients,
        some_delivered: recipients.some(({ status }) => status === 'delivered'),
        notification_id,
        happened_at,
        state_event_id: newId(),
        word: event,
        word_event_id: newId(),
      },
    }
  })
  const rows = await sql<{ id: string }[]>`
    with ${holding(sql, items)},
    told as (
      select held.job_id, c.* from held cross join lateral jsonb_to_record(held.change) as c(
        tenant_id uuid, message_id uuid, said text, provider_reference text, provider_status text, failure jsonb,
        price jsonb, recipients_told jsonb, suppresses jsonb, rank integer, some_delivered boolean,
        notification_id uuid, happened_at timestamptz, state_event_id uuid, word text, word_event_id uuid)
    ),
    ${seeing(sql)},
    ${hearing(sql)},
    ${stepping(sql)},
    m as (
      update messages m set recipients = s.recipients_after, status = s.becomes,
        provider_reference = coalesce(m.provider_reference, s.provider_reference),
        provider_status = case when s.rank > 0 and s.rank >= s.rank_before
          then coalesce(s.provider_status, m.provider_status) else m.provider_status end,
        failure = case when not (s.moves or s.gives_up) then s.failure_before
          when s.becomes in ('failed', 'undelivered', 'unknown') then s.failure_after end,
        price = coalesce(s.price, m.price),
        sent_at = case when s.is_taken then coalesce(m.sent_at, clock_timestamp()) else m.sent_at end,
        delivered_at = case when s.becomes = 'delivered' then coalesce(m.delivered_at, clock_timestamp())
          else m.delivered_at end,
        content = case when ${isSpent(sql)} then null else m.content end,
        redacted_at = case when ${isSpent(sql)} then coalesce(m.redacted_at, clock_timestamp()) else m.redacted_at end,
        ask_at = case when not s.moves then m.ask_at
          when s.channel = 'sms' and s.is_taken and (s.becomes = 'sent' or coalesce(s.price, m.price) is null)
            then clock_timestamp() + ${ASKED_AFTER}::interval end,
        updated_at = case when s.moves or s.said = 'unresolved' or s.price is not null
          or s.recipients_after <> m.recipients then clock_timestamp() else m.updated_at end
      from step s where m.tenant_id = s.tenant_id and m.id = s.message_id
      returning m.*, s.job_id, s.moves, s.notification_id, s.state_event_id, s.word_event_id,
        case when s.tells_word then s.word end as word, s.affected
    ),
    event as (${announce(sql, 'message', announced(sql))}),
    ${suppressing(sql, toSuppress(sql))},
    ${filing(sql, 'message')},
    ${wakingJobs(sql)},
    ${finishing(sql, endsSoon(sql))}
    select id from job`
  return new Set(rows.map((row) => row.id))
}

/** Whether an email of the system's that has a link in it has ended: the link is a secret of who got it, and kept no longer. */
function isSpent(sql: Sql | Tx): Fragment {
  return sql`(
    m.tenant_id = ${SYSTEM_TENANT_ID} and m.idempotency_key like 'invitation %'
    and s.becomes not in ${sql(OPEN_MESSAGE_STATUSES)})`
}

/** How far what was said takes an SMS; 0 where this is no word of its provider. */
function rankOfSms(said: MessageTold['said']): number {
  return Object.entries(SMS_RANKS).find(([each]) => each === said)?.[1] ?? 0
}

/** The part `seen`: what was told, with the message as it stood until now, locked. */
function seeing(sql: Sql | Tx): Fragment {
  return sql`
    seen as (
      select told.*, m.channel, m.status as before, m.failure as failure_before, m.recipients as recipients_before,
        ${isOpenMessage(sql, 'm')} as was_open,
        case m.status when 'sent' then ${SMS_RANKS.sent}::integer when 'delivered' then ${SMS_RANKS.delivered}::integer
          when 'undelivered' then ${SMS_RANKS.undelivered}::integer
          -- What only our call took for failed may have been taken all the same.
          when 'failed' then case when m.provider_status is null then 0 else ${SMS_RANKS.failed}::integer end
          else 0 end as rank_before,
        m.channel = 'email' and case
          when m.status in ('sent', 'delivered', 'undelivered') then true
          when m.status in ('sending', 'unknown') then told.said in ('sent', 'heard')
          when m.status in ('scheduled', 'queued', 'failed') then told.said = 'heard' and told.some_delivered
          else false end as has_left
      from (select * from told order by tenant_id, message_id) told
      cross join lateral (
        select * from messages m where m.tenant_id = told.tenant_id and m.id = told.message_id for update
      ) m
    )`
}

/** The parts from `recipient` to `counted`: what becomes of each recipient, and of how many what has become. */
function hearing(sql: Sql | Tx): Fragment {
  return sql`
    recipient as (
      select seen.job_id, seen.word, seen.has_left, e.nth, e.was, news.recipient as news,
        seen.has_left or (seen.said = 'refused' and seen.was_open) or (seen.said = 'queued' and seen.before = 'sending')
          as counts,
        seen.before in ('sending', 'unknown') as was_on_its_way
      from seen
      cross join lateral jsonb_array_elements(seen.recipients_before) with ordinality as e(was, nth)
      left join lateral (
        select n.recipient from jsonb_array_elements(seen.recipients_told) as n(recipient)
        where n.recipient ->> 'address' = e.was ->> 'address' limit 1
      ) news on true
    ), became as (
      select recipient.*, case
          when counts and was ->> 'status' is null and news ? 'deferred' then was || news
          when counts and ${rankOfRecipient(sql, sql`news`)} > ${rankOfRecipient(sql, sql`was`)} then news
          when has_left and was ->> 'status' is null and (was_on_its_way or not was ? 'deferred')
            then (was - 'deferred') || '{"status": "accepted", "code": null, "message": null}'
          else was end as is_now
      from recipient
    ), counted as (
      select job_id, jsonb_agg(is_now order by nth) as recipients_after,
        count(*) filter (where coalesce(is_now ->> 'status', '') not in ('refused', 'suppressed')) as lives,
        count(*) filter (where is_now ->> 'status' = 'delivered') as arrived,
        count(*) filter (where is_now ->> 'status' = 'bounced') as came_back,
        jsonb_agg(is_now order by nth) filter (where case word
          when 'message.recipients_settled' then was ->> 'deferred' = 'trying'
            and is_now ->> 'deferred' is distinct from 'trying' and is_now ->> 'deferred' is distinct from 'waiting'
          when 'message.complained' then is_now ->> 'code' = 'complaint' and was ->> 'code' is distinct from 'complaint'
          else is_now ->> 'status' = 'bounced' and was ->> 'status' is distinct from 'bounced' end) as affected
      from became group by job_id
    )`
}

/** The parts `judged` and `step`: what becomes of each message, and what follows from that. */
function stepping(sql: Sql | Tx): Fragment {
  return sql`
    judged as (
      select *, case
          when has_left and lives > 0 and came_back = lives then 'undelivered'
          when has_left and arrived > 0 and arrived + came_back = lives then 'delivered'
          when has_left then 'sent'
          when channel = 'sms' and rank > rank_before and before not in ('canceled', 'suppressed') then said
          when said = 'queued' and before = 'sending' then 'queued'
          when said = 'refused' and was_open then 'failed'
          when said = 'unknown' and before = 'sending' then 'unknown'
          else before end as becomes
      from seen join counted using (job_id)
    ), step as (
      select *, becomes <> before as moves, becomes in ('sent', 'delivered', 'undelivered') as is_taken,
        said = 'unresolved' and before = 'unknown' as gives_up,
        has_left and word is not null and affected is not null as tells_word,
        case when becomes = 'undelivered' then coalesce(failure, ${sql.json(CAME_BACK)}::jsonb)
          else failure end as failure_after
      from judged
    )`
}

/** The rank of what became of a recipient. A complaint says more than that it came back. */
function rankOfRecipient(sql: Sql | Tx, recipient: Fragment): Fragment {
  return sql`(
    coalesce(array_position(${RECIPIENT_RANKS}::text[], ${recipient} ->> 'status'), 0) * 2
    + (${recipient} ->> 'code' is not distinct from 'complaint')::integer)`
}

/** Whom it must no longer reach. */
function toSuppress(sql: Sql | Tx): Fragment {
  return sql`
    select step.tenant_id, x.suppression_id, x.suppression_event_id, step.channel, x.address, x.sealed, x.reason,
      step.message_id, coalesce(step.happened_at, held.started_at) as happened_at
    from step join held on held.job_id = step.job_id
    cross join lateral jsonb_to_recordset(step.suppresses) as x(
      suppression_id uuid, suppression_event_id uuid, address text, sealed text, reason text)`
}

/** The event of the state that a message has reached, and that of the word about recipients, which has these alone. */
function announced(sql: Sql | Tx): Fragment {
  return sql`
    select ${messageColumns(sql, [])}, e.event_id, e.event, e.recipients from m
    cross join lateral (values
      (m.state_event_id, 'message.' || m.status,
        m.moves and m.status in ('sent', 'delivered', 'undelivered', 'failed', 'unknown'), m.recipients),
      (m.word_event_id, m.word, m.word is not null, m.affected)
    ) as e(event_id, event, tells, recipients)
    where e.tells`
}

/**
 * Makes the waiting jobs of messages due that a notification has settled. A job that is locked is being performed, and
 * is settled behind this one.
 */
function wakingJobs(sql: Sql | Tx): Fragment {
  return sql`
    woken as (
      select j.tenant_id, j.id from m
      cross join lateral (
        select j.tenant_id, j.id from jobs j
        where j.tenant_id = m.tenant_id and j.subject_id = m.id and j.state in ('ready', 'unknown')
          and j.run_at > now() for update skip locked
      ) j
      where m.notification_id is not null and m.moves and ${isOver(sql)}
    ), awake as (
      -- One whose attempts were used up has another, which ends it.
      update jobs j set run_at = now(), rung_at = null, max_attempts = greatest(j.max_attempts, j.attempt + 1)
      from woken where j.tenant_id = woken.tenant_id and j.id = woken.id
    )`
}

/** Whether nothing of the message `m` is left to be sent. */
function isOver(sql: Sql | Tx): Fragment {
  return sql`(not ${isOpenMessage(sql, 'm')} and not ${awaitsAnother(sql, 'm')})`
}

/** A job that would wait, although its message is settled meanwhile, ends at its next attempt: that is now. */
function endsSoon(sql: Sql | Tx): Fragment {
  return sql`
    case when held.job_id in (select job_id from m where ${isOver(sql)})
      then 0 else held.delay_ms end`
}

/** Settles a message that an operator has found not to have been sent. */
export async function settleMessageAsFailed(
  tx: Tx,
  settlement: Settlement,
  { tenant_id, id: message_id, operation, failure: { message } }: FailedRow,
): Promise<void> {
  const failure: MessageFailure = { code: 'provider_error', message, provider_code: null }
  const code = SEND_FAILED[operation === sendEmail.call.operation ? 'email' : 'sms']
  const error = { code, message: ERRORS[code][1], provider_message: message }
  const told: MessageTold = { ...nothingReportedOfMessage, tenant_id, message_id, said: 'refused', failure }
  await settleMessages(tx, [{ ...settlement, error, told, notification_id: null, happened_at: null }])
}

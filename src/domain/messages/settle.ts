// Settles messages by what became known of them: one statement moves the message on, suppresses whom it must no longer
// reach, announces it and ends the job.
import { newId } from '#core/ids.ts'
import type { Fragment, Sql, Tx } from '#core/db.ts'
import { ERRORS } from '#core/errors.ts'
import type { MessageFailure } from '#core/outcome.ts'
import { sendEmail } from '#jobs/messages.ts'
import { announce } from '../events.ts'
import { finishing, holding, type FailedRow, type Settlement } from '../jobs/settle.ts'
import { filing } from '../notifications/settle.ts'
import { suppressing } from '../suppressions/settle.ts'
import { isOpenMessage } from './subject.ts'
import { nothingTold, type MessageTold } from './told.ts'

/** The settlement of a job with what it was told of a message, and with the notification that brought this, if one did. */
export type MessageSettlement = Settlement & { told: MessageTold; notification_id: string | null }

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
 * Settles jobs that were told something of a message, in one statement. No two settlements of one call may be of the same
 * message. Words may come late, twice and in any order: the result is the same. What its provider has taken was sent, also
 * where we took it for failed; what was canceled or suppressed before it left stays so. The job of a message that a
 * notification has settled is due at once, and ends. Returns the ids of the jobs whose lease was still ours; for the
 * others nothing was written.
 */
export async function settleMessages(sql: Sql | Tx, settlements: MessageSettlement[]): Promise<Set<string>> {
  const items = settlements.map(({ told, notification_id, ...settlement }) => {
    const { suppresses, event, recipients, ...facts } = told
    return {
      ...settlement,
      change: {
        ...facts,
        ...suppresses,
        rank: Object.entries(SMS_RANKS).find(([said]) => said === told.said)?.[1] ?? 0,
        of_recipients: recipients,
        some_delivered: recipients.some(({ status }) => status === 'delivered'),
        notification_id,
        event_id: newId(),
        word: event,
        word_event_id: newId(),
        suppression_event_id: newId(),
      },
    }
  })
  const rows = await sql<{ id: string }[]>`
    with ${holding(sql, items)},
    told as (
      select held.job_id, c.* from held cross join lateral jsonb_to_record(held.change) as c(
        tenant_id uuid, message_id uuid, said text, provider_reference text, provider_status text, failure jsonb,
        price jsonb, of_recipients jsonb, suppression_id uuid, address text, sealed text, reason text, rank integer,
        some_delivered boolean, notification_id uuid, event_id uuid, word text, word_event_id uuid,
        suppression_event_id uuid)
    ), ${stepping(sql)},
    m as (
      update messages m set recipients = s.recipients_after, status = s.becomes,
        provider_reference = coalesce(m.provider_reference, s.provider_reference),
        provider_status = case when s.channel = 'sms' and s.rank >= s.rank_before and s.rank > 0
          then coalesce(s.provider_status, m.provider_status) else m.provider_status end,
        failure = case
          when s.becomes = s.before and (s.said <> 'unresolved' or s.before <> 'unknown') then m.failure
          when s.becomes in ('failed', 'undelivered', 'unknown') then s.failure_after end,
        price = coalesce(s.price, m.price),
        sent_at = case when s.becomes in ('sent', 'delivered', 'undelivered')
          then coalesce(m.sent_at, clock_timestamp()) else m.sent_at end,
        delivered_at = case when s.becomes = 'delivered' then coalesce(m.delivered_at, clock_timestamp())
          else m.delivered_at end,
        ask_at = case when s.channel = 'sms' and s.becomes in ('sent', 'delivered', 'undelivered')
            and s.becomes <> s.before and (s.becomes = 'sent' or coalesce(s.price, m.price) is null)
          then clock_timestamp() + ${ASKED_AFTER}::interval
          when s.becomes = s.before then m.ask_at end,
        updated_at = case when s.becomes <> s.before or s.recipients_after <> m.recipients or s.price is not null
          or s.said = 'unresolved' then clock_timestamp() else m.updated_at end
      from step s where m.tenant_id = s.tenant_id and m.id = s.message_id
      returning m.*, s.before, s.job_id, s.notification_id, s.event_id as first_event_id,
        case when s.tells_word then s.word end as word, s.word_event_id
    ),
    event as (${announce(sql, 'message', announced(sql))}),
    ${suppressing(
      sql,
      sql`
      select tenant_id, suppression_id, suppression_event_id, channel, address, sealed, reason, message_id
      from step where suppression_id is not null`,
    )},
    ${filing(sql, 'message')},
    ${wakingJobs(sql)},
    ${finishing(sql, endsSoon(sql))}
    select id from job`
  return new Set(rows.map((row) => row.id))
}

/** The parts from `seen` to `step`: the rows that were told of, and what becomes of each and of its recipients. */
function stepping(sql: Sql | Tx): Fragment {
  return sql`
    seen as (
      select told.*, m.channel, m.status as before, m.recipients as recipients_before,
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
    ), merged as (
      select seen.*, r.* from seen cross join lateral (
        select jsonb_agg(became.recipient order by e.nth) as recipients_after,
          count(*) filter (where became.recipient ->> 'status' not in ('refused', 'suppressed')) as lives,
          count(*) filter (where became.recipient ->> 'status' = 'delivered') as arrived,
          count(*) filter (where became.recipient ->> 'status' = 'bounced') as came_back,
          bool_or(became.recipient ->> 'status' = 'bounced' and case seen.word
            when 'message.complained' then e.was ->> 'code' is distinct from 'complaint'
            else e.was ->> 'status' is distinct from 'bounced' end) as is_new
        from jsonb_array_elements(seen.recipients_before) with ordinality as e(was, nth)
        left join lateral (
          select c.told from jsonb_array_elements(seen.of_recipients) as c(told)
          where c.told ->> 'address' = e.was ->> 'address' limit 1
        ) c on true
        cross join lateral (
          select case
              when not (seen.has_left or (seen.said = 'refused' and ${wasOpen(sql)})) then e.was
              when ${rankOfRecipient(sql, sql`c.told`)} > ${rankOfRecipient(sql, sql`e.was`)} then c.told
              when seen.has_left and e.was ->> 'status' is null then e.was || '{"status": "accepted"}'
              else e.was end as recipient
        ) became
      ) r
    ), step as (
      select s.*, s.has_left and s.word is not null and s.is_new as tells_word,
        case when s.becomes = 'undelivered'
          then coalesce(s.failure, ${sql.json(CAME_BACK)}::jsonb) else s.failure end as failure_after
      from (
        select merged.*, case
            when has_left and lives > 0 and came_back = lives then 'undelivered'
            when has_left and arrived > 0 and arrived + came_back = lives then 'delivered'
            when has_left then 'sent'
            when channel = 'sms' and rank > rank_before and before not in ('canceled', 'suppressed') then said
            when said = 'queued' and before = 'sending' then 'queued'
            when said = 'refused' and ${wasOpen(sql)} then 'failed'
            when said = 'unknown' and before = 'sending' then 'unknown'
            else before end as becomes
        from merged
      ) s
    )`
}

function wasOpen(sql: Sql | Tx): Fragment {
  return sql`before in ('scheduled', 'queued', 'sending', 'unknown')`
}

/** A complaint says more than that it came back. */
function rankOfRecipient(sql: Sql | Tx, recipient: Fragment): Fragment {
  return sql`(
    coalesce(array_position(${RECIPIENT_RANKS}::text[], ${recipient} ->> 'status'), 0) * 2
    + (${recipient} ->> 'code' is not distinct from 'complaint')::integer)`
}

/** The event of the state that a message has reached, and that of the word about a recipient. */
function announced(sql: Sql | Tx): Fragment {
  return sql`
    select m.*, e.event_id, e.event from m
    cross join lateral (values
      (m.first_event_id, 'message.' || m.status,
        m.status <> m.before and m.status in ('sent', 'delivered', 'undelivered', 'failed', 'unknown')),
      (m.word_event_id, m.word, m.word is not null)
    ) as e(event_id, event, tells)
    where e.tells`
}

/**
 * Makes the waiting jobs of messages due that a notification has settled. A job that is locked is being performed, and is
 * settled behind this one.
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
      where m.notification_id is not null and m.status <> m.before and not ${isOpenMessage(sql, 'm')}
    ), awake as (
      -- One whose attempts were used up has another, which ends it.
      update jobs j set run_at = now(), rung_at = null, max_attempts = greatest(j.max_attempts, j.attempt + 1)
      from woken where j.tenant_id = woken.tenant_id and j.id = woken.id
    )`
}

/** A job that would wait, although its message is settled meanwhile, ends at its next attempt: that is now. */
function endsSoon(sql: Sql | Tx): Fragment {
  return sql`
    case when held.job_id in (select job_id from m where not ${isOpenMessage(sql, 'm')})
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
  const told: MessageTold = { ...nothingTold({ tenant_id, message_id }), said: 'refused', failure }
  await settleMessages(tx, [{ ...settlement, error, told, notification_id: null }])
}

// Judges messages against the providers' records: each is sent at most once, and its outcome is known or marked as
// unknown.
import type { Channel } from '#core/addresses.ts'
import { sendSms } from '#jobs/messages.ts'
import type { Problem } from '#test/invariants.ts'
import type { Switch } from '../record.ts'
import type { System } from '../system.ts'
import { departuresOf, type Departure } from './departures.ts'
import { lossesOf } from './lost.ts'

export const SENT_TWICE = 'a message was sent twice'

/** A message with the state of its job. */
export type JudgedMessage = {
  id: string
  key: string
  channel: Channel
  status: string
  reference: string | null
  /** Our failure code and the provider's code. */
  failure: string | null
  provider_code: string | null
  /** Number of recipients that the message reports as reached. */
  reached: number
  /** Number of deferred recipients for which the outcome of the last attempt is unknown. */
  maybe_reached: number
  /** The first recipient. */
  address: string
  /** Number of unknown messages to the same first recipient. */
  unknown_at_address: number
  /** The job is open. */
  open: boolean
  /** At some time the outcome was unknown. */
  ambiguous: boolean
  /** The provider reported the outcome before the job found it. */
  reported: boolean
  /** ISO 8601. */
  created_at: string
}

export type MessageCounts = {
  ambiguous: number
  reported: number
  found: number
  unknown: number
  failed_and_sent: number
}

const SENT_STATUSES = new Set(['sent', 'delivered', 'undelivered'])
/** Twilio may have sent a message that it answered with a 500. Twilio reports such a message later, or never. */
const TWILIO_INTERNAL_ERROR = '20500'
const UNSENT_STATUSES = new Set(['scheduled', 'queued', 'canceled', 'suppressed'])

/** Returns contradictions, and counts of ambiguous messages by how they were resolved. */
export function judgeMessages(
  messages: JudgedMessage[],
  departures: Departure[],
): { problems: Problem[]; counts: MessageCounts } {
  const problems: Problem[] = []
  const counts: MessageCounts = { ambiguous: 0, reported: 0, found: 0, unknown: 0, failed_and_sent: 0 }
  const of = Map.groupBy(departures, ({ id }) => id)
  const by_id = new Map(messages.map((message) => [message.id, message]))
  const by_reference = new Map(messages.map((message) => [message.reference, message]))
  const owners = new Map(departures.map(({ reference, id }) => [reference, by_id.get(id ?? '')]))
  // Ambiguous messages to the same number, which may have the same text, may have each other's references.
  const hasReferenceOfEqual = (message: JudgedMessage): boolean => {
    const { address, reference, ambiguous } = message
    const owner = owners.get(reference ?? '')
    const is_alike = owner?.ambiguous === true && owner.address === address
    return ambiguous && is_alike && by_reference.get(reference) === message
  }
  for (const message of messages) {
    const { id, status, open, ambiguous, reported, reference, channel } = message
    const sent = of.get(id) ?? []
    const report = (problem: string) => problems.push({ problem, ...message, sent })
    const recipients = sent.flatMap((departure) => departure.recipients)
    // An email is sent again to the recipients that its server deferred.
    const reached = new Set(recipients).size
    if (reached < recipients.length) report(SENT_TWICE)
    if (SENT_STATUSES.has(status) && sent.length === 0) report('a sent message is lost')
    // The row repeats a request that the database has lost after its message left. Its recipient has opted out since,
    // so the message is not sent again.
    const denies_repetition =
      status === 'suppressed' && sent.every(({ at }) => Date.parse(at) < Date.parse(message.created_at))
    if (UNSENT_STATUSES.has(status) && sent.length > 0 && !denies_repetition)
      report('a message that must not be sent was sent')
    if (status === 'failed' && sent.length > 0) {
      if (channel === 'sms' && message.provider_code === TWILIO_INTERNAL_ERROR) counts.failed_and_sent++
      else report('a failed message was sent')
    }
    if (!open && ['scheduled', 'queued', 'sending'].includes(status)) report('an accepted message is lost')
    if (!open && status === 'unknown' && message.failure !== 'not_resolved')
      report('an unknown message has no open job')
    if (
      SENT_STATUSES.has(status) &&
      sent.some((departure) => departure.reference !== reference) &&
      !(channel === 'sms' && hasReferenceOfEqual(message))
    )
      report('a message has another reference')
    const { reached: certain, maybe_reached } = message
    const is_possible = reached >= certain && reached <= certain + maybe_reached
    if (SENT_STATUSES.has(status) && channel === 'email' && sent.length > 0 && !is_possible)
      report('a message reached the wrong number of recipients')
    // Email has no lookup. A lookup of one of several equal messages cannot tell which of them was sent.
    if (channel === 'sms' && status === 'unknown' && sent.length > 0 && message.unknown_at_address === 1)
      report('a sent SMS stays unknown')
    if (ambiguous) counts.ambiguous++
    if (status === 'unknown') counts.unknown++
    else if (ambiguous) counts[reported ? 'reported' : 'found']++
  }
  const ids = new Set(messages.map(({ id }) => id))
  for (const departure of departures)
    if (departure.id === null || !ids.has(departure.id))
      problems.push({ problem: 'an unknown message was sent', ...departure })
  return { problems, counts }
}

/** Makes all lookups of unknown SMS due. The provider works now, so sent SMS are found. */
export async function lookUpUnknownSms({ sql }: System): Promise<void> {
  await sql`
    update jobs set run_at = now(), wakeup_sent_at = null
    where name = ${sendSms.name} and state = 'unknown' and run_at > now()`
}

/** Judges all messages. */
export async function messagesOf(
  system: System,
  switches: Switch[],
): Promise<ReturnType<typeof judgeMessages>> {
  const { sql } = system
  // Our messages are read first: what a provider reports after that is an update, not a contradiction.
  const messages = await sql<JudgedMessage[]>`
    select m.id, m.idempotency_key as key, m.created_at, m.channel, m.status, m.provider_reference as reference,
      m.failure ->> 'code' as failure, m.failure ->> 'provider_code' as provider_code, (
        select count(*) from jsonb_array_elements(m.recipients) as r
        where r ->> 'status' in ('accepted', 'delivered', 'bounced')) as reached, (
        select count(*) from jsonb_array_elements(m.recipients) as r
        where r ->> 'deferred' = 'unknown') as maybe_reached,
      m.recipients -> 0 ->> 'address' as address,
      count(*) filter (where m.status = 'unknown') over (partition by m.recipients -> 0 ->> 'address') as unknown_at_address,
      coalesce(j.finished_at is null and j.id is not null, false) as open,
      exists (
        select from notifications n
        where n.resource = 'message' and n.resource_id = m.id and n.state = 'applied' and n.applied_at < j.finished_at
      ) as reported, exists (
        select from job_attempts a where a.tenant_id = j.tenant_id and a.job_id = j.id
          and (a.outcome is null or a.outcome in ('ambiguous', 'unknown')))
        -- After a switch, an SMS is looked for by its text.
        or exists (select from database_switches) as ambiguous
    from messages m
    left join jobs j on j.tenant_id = m.tenant_id and j.resource_id = m.id and j.queue = 'messages'`
  const { named, recorded_since } = await lossesOf(system)
  const lost = new Set(named.map(({ id }) => id))
  const departures = await departuresOf(system)
  const stored = new Set(messages.map(({ id }) => id))
  const are_all_named = switches.every(({ since }) => since >= recorded_since)
  const mayBeLost = (id: string) => lost.has(id) || !are_all_named
  return judgeMessages(
    messages,
    departures.filter(({ id }) => id === null || stored.has(id) || !mayBeLost(id)),
  )
}

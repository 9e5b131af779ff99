// What it means that a provider's complete list shows no effect of a call. Lists are consistent where a search is not:
// what is in none of them, long enough after the call was last sent, never took effect.
import { isOneAccount } from '#domain/jobs/accounts.ts'
import { findLastSend, type SendHistory } from '#domain/jobs/calls.ts'
import type { WorkerContext } from '../context.ts'
import { unknown, type Decision } from '../decision.ts'

/** When an absence counts as proof that a call never took effect. */
export type AbsenceRule = {
  /** An absence counts this long after the last sending. */
  after_ms: number
  /** So many lookups must show it. */
  lookups: 1 | 2
  /**
   * A refusal after an attempt in doubt is tried and looked up again this long after the first refusal; then it is
   * final. The earlier attempt may still be on its way.
   */
  refusal_lookups_ms: readonly number[]
}
const REFUSAL_LOOKUPS_MS = [5_000, 60_000, 5 * 60_000]
/** For an effect without consequences: it is canceled if it shows up later. */
export const HARMLESS: AbsenceRule = { after_ms: 0, lookups: 1, refusal_lookups_ms: [] }
/** For an effect that can be undone: it is canceled if it shows up later. */
export const REVERSIBLE: AbsenceRule = {
  after_ms: 2 * 60_000,
  lookups: 1,
  refusal_lookups_ms: REFUSAL_LOOKUPS_MS,
}
/** For money that would be gone. */
export const IRREVERSIBLE: AbsenceRule = {
  after_ms: 10 * 60_000,
  lookups: 2,
  refusal_lookups_ms: REFUSAL_LOOKUPS_MS,
}

/** The time between two lookups that must both show an absence. */
const MIN_LOOKUP_GAP_MS = 60_000
/**
 * The list of all payments is read from so long before the first sending until so long after the last. The clocks of the
 * provider and of the database differ by less, which each list shows (`assertClockInSync`), and a call leaves within it after
 * its claim. If the database's clock was wrong at the sending and is right now, a second hold is made, and one is canceled.
 */
const MARGIN_S = 60
/**
 * Lists with a filter of their own begin so long before the job, and end so long after the last sending: they are short,
 * and what they miss would be paid twice.
 * That the clocks agree now does not say that they agreed at the sending.
 */
const FILTERED_MARGIN_S = 24 * 3600

/** The provider of a call, and a fingerprint of our credentials there. */
export type QueriedProvider = { name: string; credentials: string }

/**
 * Whether each sending of the call is on record, and was made with the credentials of today or with others that are known
 * to be of the same account. Lists of another account say nothing about it.
 */
export async function wasSentToAccount(
  { sql }: Pick<WorkerContext, 'sql'>,
  { credentials, last_s }: SendHistory,
  { name, credentials: current }: QueriedProvider,
): Promise<boolean> {
  if (last_s === null || credentials === null) return false
  const used = credentials.split(' ')
  return used.every((each) => each === current) || (await isOneAccount(sql, name, [current, ...used]))
}

export type SentJob = {
  tenant_id: string
  id: string
  call: { generation: number }
  send_history: SendHistory
  age_ms: number
  began_at: number
}

/**
 * The time in which the provider can have made the object of a call, for a list with a filter of its own, and the present,
 * in Unix time by the database's clock: no worker's clock counts. It begins before the job: what an earlier key has made is
 * found too.
 */
export function filteredListRange({
  send_history: { created_s, last_s },
  age_ms,
  began_at,
}: Pick<SentJob, 'send_history' | 'age_ms' | 'began_at'>): { from_s: number; to_s: number; now_s: number } {
  const now_s = created_s + (age_ms + performance.now() - began_at) / 1000
  const to_s = Math.ceil(last_s ?? now_s) + FILTERED_MARGIN_S
  return { from_s: Math.floor(created_s) - FILTERED_MARGIN_S, to_s, now_s }
}

/**
 * The time in which the provider can have made the object of a call, for a list of all that it made then. After a rotation
 * it begins where the complete list of the key before was read to: should the object of an earlier key show up after that,
 * it is taken instead of a second one.
 */
export async function sendingRange(
  { sql }: Pick<WorkerContext, 'sql'>,
  job: SentJob,
): Promise<{ from_s: number; to_s: number; now_s: number }> {
  const { now_s } = filteredListRange(job)
  const { created_s, first_s, last_s } = job.send_history
  const requested_s = Math.floor(created_s) - MARGIN_S
  const { generation } = job.call
  const to_s = Math.ceil(last_s ?? now_s) + MARGIN_S
  const from_s = first_s === null ? requested_s : Math.floor(first_s) - MARGIN_S
  if (generation === 1) return { from_s, to_s, now_s }
  const previous_s = await findLastSend(sql, job, generation - 1)
  return { from_s: Math.floor(Math.min(previous_s ?? requested_s, first_s ?? requested_s)), to_s, now_s }
}

/**
 * Judges a call that its provider's complete list does not show. Undefined: it never took effect. Else the decision that
 * waits until that is certain.
 */
export function confirmAbsence(
  send_history: SendHistory,
  { after_ms, lookups }: Pick<AbsenceRule, 'after_ms' | 'lookups'>,
): Decision | undefined {
  const left_ms = after_ms - (send_history.last_ms ?? 0)
  if (left_ms > 0) return unknown('the provider does not show it yet', { within_ms: left_ms })
  const between_ms = MIN_LOOKUP_GAP_MS - (send_history.absent_ms ?? 0)
  if (lookups === 2 && between_ms > 0)
    return unknown('the provider does not show it; it is looked up once more', {
      within_ms: between_ms,
      absent: true,
    })
  return undefined
}

/** Why a call stays unknown. */
export const OTHER_CREDENTIALS =
  'the call was sent with other credentials that are not known to be of this account, so what these show proves nothing'
/** Why a call gets a new key. */
export const NEVER_TOOK_EFFECT = 'the provider has no record of it: it never took effect'

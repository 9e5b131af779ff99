// Decides what follows from an absence: a provider's complete list shows no effect of a call. Lists are consistent,
// but searches are not. If a list does not show an object long enough after the call was last sent, the object was
// never created.
import { providerKey } from '#core/config/providers.ts'
import { ANY_CREDENTIALS, hasAccount, isOneAccount, isOnlyAccount } from '#domain/jobs/accounts.ts'
import { findLastSend, type SendHistory } from '#domain/jobs/calls.ts'
import type { WorkerContext } from '../context.ts'
import { unknown, type Decision } from '../decision.ts'

/** When an absence proves that a call never took effect. */
export type AbsenceRule = {
  /** The minimum time since the call was last sent. */
  after_ms: number
  /** The number of lookups that must show the absence. */
  lookups: 1 | 2
  /**
   * The delays after the first refusal at which a refused call is sent again and looked up, if an earlier attempt may
   * have reached the provider. That attempt may still be in transit, so the refusal does not end the job at once. After
   * the last delay the refusal is final.
   */
  refusal_lookups_ms: readonly number[]
}
/** The delays of the lookups after a refusal that follows an attempt in doubt. */
export const REFUSAL_LOOKUPS_MS: readonly number[] = [5_000, 60_000, 5 * 60_000]
/** For an effect without consequences. An object that appears later is canceled. */
export const HARMLESS: AbsenceRule = { after_ms: 0, lookups: 1, refusal_lookups_ms: [] }
/** For an effect that can be undone. An object that appears later is canceled. */
export const REVERSIBLE: AbsenceRule = {
  after_ms: 2 * 60_000,
  lookups: 1,
  refusal_lookups_ms: REFUSAL_LOOKUPS_MS,
}
/** For money that cannot be recovered. */
export const IRREVERSIBLE: AbsenceRule = {
  after_ms: 10 * 60_000,
  lookups: 2,
  refusal_lookups_ms: REFUSAL_LOOKUPS_MS,
}

/** The minimum time between two lookups that must both show an absence. */
const MIN_LOOKUP_GAP_MS = 60_000
/**
 * The margin of the list of all payments: the list begins this long before the call was first sent, and ends this long
 * after it was last sent. The margin suffices for two reasons: each list proves that the clocks of the provider and the
 * database differ by less (`assertClockInSync`), and a call is sent within this time after its claim. If the database's
 * clock was wrong when the call was sent and is right now, a second hold is created, and one of the two holds is
 * canceled.
 */
const MARGIN_S = 60
/**
 * The margin of filtered lists: they begin this long before the creation of the job, and end this long after the call
 * was last sent. The margin is large, because clocks that agree now may have differed when the call was sent, and a
 * payout that a list misses would be paid twice. These lists are short, so the margin costs little.
 */
const FILTERED_MARGIN_S = 24 * 3600

/** The provider of a call, and the fingerprint of our present credentials. */
export type QueriedProvider = { name: string; credentials: string }

/**
 * Whether every send of the call is recorded, and all used the current credentials or other credentials of the same
 * account. Lists of another account prove nothing about the call. Sends that the database has lost may have used any
 * credentials of the installation. A sandbox is the only account of its tenant, unless the installation has ever had a
 * test account. It is not stored as an account, because it is part of the database and loses the same changes.
 */
export async function wasSentToAccount(
  { sql, livemode, modes, sandbox_of }: Pick<WorkerContext, 'sql' | 'livemode' | 'modes' | 'sandbox_of'>,
  { credentials, last_s }: SendHistory,
  { name, credentials: current }: QueriedProvider,
): Promise<boolean> {
  if (last_s === null || credentials === null) return false
  const provider = providerKey(name, livemode)
  const used = credentials.split(' ')
  const recorded = used.filter((each) => each !== ANY_CREDENTIALS)
  if (recorded.length < used.length) {
    const is_sandbox = sandbox_of !== null && !modes.contextOf(false).configured.has(name)
    if (!is_sandbox) return await isOnlyAccount(sql, provider, current)
    return recorded.every((each) => each === current) && !(await hasAccount(sql, provider))
  }
  return used.every((each) => each === current) || (await isOneAccount(sql, provider, [current, ...used]))
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
 * The time range of a filtered list that shows the object of a call, and the current time `now_s`: Unix seconds by the
 * database's clock. The range begins before the creation of the job, so that objects of earlier keys are found too.
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
 * The time range of a complete list that shows the object of a call. After a rotation the range begins where the list
 * for the previous key ended: if an object of an earlier key appears later, that object is used, and no second one is
 * created.
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
 * Decides about a call that the provider's complete list does not show. Returns undefined if the absence proves that
 * the call never took effect. Otherwise returns the decision to look up the call again.
 */
export function confirmAbsence(
  send_history: SendHistory,
  { after_ms, lookups }: Pick<AbsenceRule, 'after_ms' | 'lookups'>,
): Decision | undefined {
  const left_ms = after_ms - (send_history.last_ms ?? 0)
  if (left_ms > 0) return unknown('the provider does not list the object yet', { within_ms: left_ms })
  const between_ms = MIN_LOOKUP_GAP_MS - (send_history.absent_ms ?? 0)
  if (lookups === 2 && between_ms > 0)
    return unknown('the provider does not list the object: one more lookup must confirm that', {
      within_ms: between_ms,
      absent: true,
    })
  return undefined
}

/** The reason why a call stays unknown. */
export const CREDENTIALS_DIFFER =
  'the call was sent with credentials that may belong to another account, so the lists of this account prove nothing'
/** The reason why a call gets a new key. */
export const NEVER_TOOK_EFFECT = 'the provider has no record of the call: it never took effect'

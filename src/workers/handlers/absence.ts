// What it means that a provider's complete list shows no effect of a call. Lists are consistent where a search is not:
// what is in none of them, long enough after the call was last sent, never took effect.
import type { CallSendings } from '#domain/jobs/calls.ts'
import { unknown, type Decision } from '../decision.ts'

/** How long after the last sending an absence counts, and how many lookups must show it. */
export type AbsenceRule = { after_ms: number; lookups: 1 | 2 }
/** For an effect that can be undone: should it show up after all, it is canceled. */
export const UNDOABLE: AbsenceRule = { after_ms: 2 * 60_000, lookups: 1 }
/** For money that would be gone. */
export const IRREVERSIBLE: AbsenceRule = { after_ms: 10 * 60_000, lookups: 2 }

/** The time between two lookups that must both show an absence. */
const BETWEEN_MS = 60_000
/** The clocks of a provider and of the database differ by less than this, and a call leaves within it after its claim. */
const MARGIN_S = 60

/**
 * Whether each sending of the call is on record, and was made with the credentials of today. Lists of another account
 * say nothing about it.
 */
export function wasSentWith({ credentials, last_s }: CallSendings, ours: string): boolean {
  return last_s !== null && credentials?.split(' ').every((each) => each === ours) === true
}

/**
 * The time in which the provider can have made the object of a call, in Unix time. After a rotation it begins with the
 * job: should the object of an earlier key show up, it is taken instead of a second one.
 */
export function sendingTimes({
  call,
  sendings,
  age_ms,
}: {
  call: { generation: number }
  sendings: CallSendings
  age_ms: number
}): { from_s: number; to_s: number } {
  const last_s = sendings.last_s ?? 0
  const created_s = last_s + ((sendings.last_ms ?? 0) - age_ms) / 1000
  const begins_s = call.generation === 1 ? (sendings.first_s ?? created_s) : created_s
  return { from_s: Math.floor(begins_s) - MARGIN_S, to_s: Math.ceil(last_s) + MARGIN_S }
}

/**
 * Judges a call that its provider's complete list does not show. Undefined: it never took effect. Else the decision that
 * waits until that is certain.
 */
export function untilAbsent(
  sendings: CallSendings,
  credentials: string,
  { after_ms, lookups }: AbsenceRule,
): Decision | undefined {
  if (!wasSentWith(sendings, credentials)) return unknown(OTHER_CREDENTIALS)
  const left_ms = after_ms - (sendings.last_ms ?? 0)
  if (left_ms > 0) return unknown('the provider does not show it yet', { within_ms: left_ms })
  if (lookups === 2 && !sendings.was_absent)
    return unknown('the provider does not show it; it is looked up once more', {
      within_ms: BETWEEN_MS,
      absent: true,
    })
  return undefined
}

/** Why a call stays unknown. */
export const OTHER_CREDENTIALS = 'the call was sent with other credentials, so what these show proves nothing'
/** Why a call gets a new key. */
export const NEVER_TOOK_EFFECT = 'the provider has no record of it: it never took effect'

// Resolves a call with an unknown outcome by an operator's decision.
import type { Tx } from '#core/db.ts'
import { resolveAsDone, resolveAsFailed, type Act, type ActResult } from './act.ts'
import { findCall, type ResolvableCall } from './find.ts'

/** `reference`: the provider's id of the object that the call created; null if it created none or took no effect. */
export type CallOutcome = { took_effect: boolean; reference: string | null }

export const UNREADABLE_REQUEST =
  'The stored request of the job cannot be read, so the call cannot be looked up.'

/**
 * Resolves a job as done or as failed. Undefined if the job's state does not allow it; `refused` gives any
 * other reason.
 */
export async function resolveJob(
  tx: Tx,
  act: Act,
  { took_effect, reference }: CallOutcome,
): Promise<ActResult | { refused: string }> {
  if (!took_effect) {
    const done = await resolveAsFailed(tx, act)
    return done !== undefined && 'settled' in done
      ? { refused: `There is nothing to resolve: ${done.settled}.` }
      : done
  }
  const call = await findCall(tx, act.job_id)
  if (call === undefined) return undefined
  const problem = problemOfReference(call, reference)
  if (problem !== undefined) return { refused: `The reference ${problem}.` }
  if (!call.readable) return { refused: UNREADABLE_REQUEST }
  return await resolveAsDone(tx, act, reference)
}

/** Why this reference is not valid for a call that took effect, as the end of a sentence; undefined if it is valid. */
export function problemOfReference(
  { makes }: Pick<ResolvableCall, 'makes'>,
  reference: string | null,
): string | undefined {
  if (makes === null)
    return reference === null ? undefined : 'must be empty: this job changes an existing object'
  if (reference === null) return `is required: the provider's id of the created object, like ${makes.example}`
  return makes.id.test(reference)
    ? undefined
    : `must be the provider's id of the created object, like ${makes.example}`
}

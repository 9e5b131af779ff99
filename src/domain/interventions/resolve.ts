// An operator says what became of a call whose answer was lost.
import type { Tx } from '#core/db.ts'
import { resolveAsDone, resolveAsFailed, type Act, type ActResult } from './act.ts'
import { findCall, type ResolvableCall } from './find.ts'

/** `reference`: the provider's id of what the call made; null for a call that makes nothing, or that took no effect. */
export type CallOutcome = { took_effect: boolean; reference: string | null }

export const UNREADABLE_REQUEST = 'Its stored request cannot be read, so it cannot be looked up.'

/** Resolves a job as done or as failed. Undefined when its state did not allow that; `refused` says what else did not. */
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
  const problem = referenceProblem(call, reference)
  if (problem !== undefined) return { refused: `The reference ${problem}.` }
  if (!call.readable) return { refused: UNREADABLE_REQUEST }
  return await resolveAsDone(tx, act, reference)
}

/** What is wrong with the reference of a call that took effect, to follow its name. */
export function referenceProblem(
  { makes }: Pick<ResolvableCall, 'makes'>,
  reference: string | null,
): string | undefined {
  if (makes === null)
    return reference === null
      ? undefined
      : 'is for what is new at the provider, but this job changes something that exists'
  if (reference === null) return `is missing: the provider's id of what was created, like ${makes.example}`
  return makes.id.test(reference) ? undefined : `must be the provider's id of it, like ${makes.example}`
}

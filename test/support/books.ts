// Checks the invariants at the end of a test.
import { expect } from 'vitest'
import { findRemainingProblems, type Books } from './invariants.ts'

/** Fails with the list of contradictions that the checks find. */
export async function checkInvariants(world: Books): Promise<void> {
  expect(await findRemainingProblems(world)).toEqual([])
}

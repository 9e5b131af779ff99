// The invariants of a world, checked after a story.
import { expect } from 'vitest'
import { findRemainingProblems, type Books } from './invariants.ts'

/** Fails with the list of what does not add up in the end. */
export async function checkInvariants(world: Books): Promise<void> {
  expect(await findRemainingProblems(world)).toEqual([])
}

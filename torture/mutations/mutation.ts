// The type of a mutation: a copy of the sources without one protection.
import type { Patch } from '../copy.ts'

export type Mutation = {
  name: string
  about: string
  /** The problem that must be found. */
  expect: string
  /** Faults that provoke the problem. */
  faults: string[]
  patches: Patch[]
}

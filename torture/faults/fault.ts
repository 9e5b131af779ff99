// What a fault is: how it is inflicted and lifted, and how soon everything must work again.
import type { Random } from '../random.ts'
import type { Place, System } from '../system.ts'

export type Fault = {
  name: string
  /** A line for `--help`. */
  about: string
  /** Where the queue must be for it to mean anything; anywhere unless told. */
  on?: readonly Place[]
  /** About how long it takes with the recovery, for the schedule. */
  takes_ms: number
  /** A payment must go through on each API this soon after it; from the beginning of a fault that ends unnoticed. */
  bar_ms: number
  counts_from?: 'beginning'
  /** Taken only when it is named, or in runs of at least so many minutes, and once. */
  minutes?: number
  /** Resolves when it is over. What it finds wrong by itself it answers. */
  inflict(system: System, random: Random): Promise<Problem[] | void>
}

export type Problem = { problem: string; [fact: string]: unknown }

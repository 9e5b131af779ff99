// What a fault is: how it is inflicted and lifted, and how soon everything must work again.
import type { Problem } from '#test/invariants.ts'
import type { Random } from '../random.ts'
import type { QueueServer } from '../queue-servers.ts'
import type { System } from '../system.ts'

/** With `late_job`, that this job was late: where other work goes on, that counts only if it is unfinished when all is quiet. */
export type FaultProblem = Problem & { late_job?: string }

export type Fault = {
  name: string
  /** A line for `--help`. */
  about: string
  /** Where the queue must be for it to mean anything; anywhere unless told. */
  on?: readonly QueueServer[]
  /** About how long it takes with the recovery, for the schedule. */
  duration_ms: number
  /** A payment must go through on each API this soon after it; from the beginning of a fault that ends unnoticed. */
  recovery_limit_ms: number
  recovery_from?: 'beginning'
  /** It takes long: taken only when it is named or in runs of at least so many minutes, first and once. */
  minutes?: number
  /** Nobody is turned away while it lasts, and bells ring again within `recovery_limit_ms`. */
  transparent?: true
  /** A worker writes too late afterwards, and is fenced. */
  fences?: true
  /** Resolves when it is over. What it finds wrong by itself it answers. */
  inflict(system: System, random: Random): Promise<FaultProblem[] | void>
}

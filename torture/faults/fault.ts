// The type of a fault: how it is injected and how soon the system must recover.
import type { Problem } from '#test/invariants.ts'
import type { Load } from '../load.ts'
import type { Random } from '../random.ts'
import type { QueueServer } from '../queue-servers.ts'
import type { System } from '../system.ts'

/**
 * `late_job`: the id of the job if the problem is a late job. In lenient runs, a late job counts as a problem only if
 * it is still open at the end.
 */
export type FaultProblem = Problem & { late_job?: string }

export type Fault = {
  name: string
  /** One line for `--help`. */
  about: string
  /** The queue servers on which the fault is possible. Default: all. */
  on?: readonly QueueServer[]
  /** Whether the fault is possible only with `--pooler`. */
  needs_pooler?: true
  /** Estimated duration with the recovery, for the schedule. */
  duration_ms: number
  /**
   * A payment must succeed on each API within this time after the end of the fault, or after its beginning if
   * `recovery_from` is `beginning`.
   */
  recovery_limit_ms: number
  recovery_from?: 'beginning'
  /**
   * A long fault: it runs once, before all others, in runs of at least this many minutes, or if `--fault` names it.
   */
  minutes?: number
  /** No client is refused during the fault, and wake-ups arrive again within `recovery_limit_ms`. */
  transparent?: true
  /** The fault needs a PostgreSQL whose data can go back in time: `system.restorable`. */
  switches?: true
  /** During the fault a worker writes after its lease has expired, and must be fenced. */
  fences?: true
  /** Resolves when the fault has ended, with the problems that the fault itself has found. */
  inflict(system: System, random: Random, load: Load): Promise<FaultProblem[] | void>
}

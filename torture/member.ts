// A process of the system under torture.
import type { Process } from '#test/process.ts'

/** A process that can be restarted on the same port. */
export type Member = {
  name: string
  process(): Process
  /** Default: SIGKILL. */
  kill(signal?: NodeJS.Signals): Promise<void>
  /**
   * Starts the process with its previous options, except for the given ones, which stay. With `output`, the descriptor
   * of its log, it does not wait for the process to be ready.
   */
  start(options?: { root?: string; env?: Record<string, string>; output?: number | undefined }): Promise<void>
}

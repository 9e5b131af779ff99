// A process of the system under torture.
import type { Process } from '#test/process.ts'

/** A process that can be restarted on the same port. */
export type Member = {
  name: string
  process(): Process
  /** Default: SIGKILL. */
  kill(signal?: NodeJS.Signals): Promise<void>
  /**
   * Starts the process with its previous options; the given options replace them, also for later starts. With
   * `output`, the descriptor of its log, the function does not wait until the process is ready.
   */
  start(options?: { root?: string; env?: Record<string, string>; output?: number | undefined }): Promise<void>
}

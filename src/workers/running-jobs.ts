// The jobs that one worker runs now: each once, in a slot of its queue.
import type { Log } from '#core/log.ts'
import { createSlots, type Source, type Slots } from './slots.ts'

export type RunningJobs = {
  /** Runs `work` in a slot of the queue, unless the job already runs. Never rejects. */
  run(job: { id: string; queue: string }, by: Source, work: () => Promise<void>): Promise<void>
  /** The number of further jobs of the queue that a scan may claim. */
  room: (queue: string) => number
  /** For how many milliseconds no job has run; 0 while a job runs. */
  idleFor: () => number
  /** Sets a callback for each job that starts while no other job runs. */
  onFirstJob: (called: () => void) => void
  /** Resolves when the jobs that run now have ended. */
  allEnded(): Promise<void>
}

export function createRunningJobs(
  queues: readonly string[],
  concurrencyOf: (queue: string) => number,
  log: Log,
): RunningJobs {
  const slots = new Map<string, Slots>(queues.map((name) => [name, createSlots(concurrencyOf(name))]))
  const running = new Map<string, Promise<void>>()
  let last_ended_at = performance.now()
  let onFirst = () => {}

  return {
    async run({ id, queue }, by, work) {
      // A wake-up and a scan can both start the same job in this process.
      if (running.has(id)) return
      const job = slots
        .get(queue)!
        .run(by, work)
        .catch((error: unknown) => log.warn({ err: error, job_id: id }, 'a job could not be claimed'))
      running.set(id, job)
      if (running.size === 1) onFirst()
      await job
      running.delete(id)
      last_ended_at = performance.now()
    },
    room: (queue) => slots.get(queue)!.room(),
    idleFor: () => (running.size > 0 ? 0 : performance.now() - last_ended_at),
    onFirstJob(called) {
      onFirst = called
    },
    async allEnded() {
      await Promise.all(running.values())
    },
  }
}

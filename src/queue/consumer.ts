// The consumer of one queue: performs its wake-ups through a BullMQ worker that can be replaced.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Backend, RunningWorker, WorkerStart } from './backend.ts'
import { close_limit_ms } from './settings.ts'

export type Consumer = {
  /** Accepts no more wake-ups; resolves when the current wake-ups are performed, even while the backend is down. */
  close(): Promise<void>
  /**
   * Replaces a stuck worker with a new worker and new connections. The old worker finishes its wake-ups, so until
   * then more than `concurrency` wake-ups may be performed at once.
   */
  restart: () => Promise<void>
}

/** A worker with the wake-ups that it performs now. */
type WorkerRun = { worker: RunningWorker; performing: Set<Promise<void>> }

export function startConsumer(
  backend: Backend,
  options: WorkerStart,
  failed: (error: unknown) => void,
): Consumer {
  const ending = new Set<Promise<void>>()
  let closing = false
  let current = start()
  let restarting: Promise<void> | null = null

  function start(): WorkerRun {
    const performing = new Set<Promise<void>>()
    const worker = backend.startWorker({
      ...options,
      async perform(id, signal) {
        const performed = perform(id, signal)
        performing.add(performed)
        await performed
        performing.delete(performed)
      },
    })
    return { worker, performing }
  }

  async function perform(id: string, signal?: AbortSignal): Promise<void> {
    try {
      await options.perform(id, signal)
    } catch (error) {
      // The error is not passed to BullMQ: the job's row in Postgres decides whether the job is retried.
      failed(error)
    }
  }

  function end(run: WorkerRun): Promise<void> {
    const finished = finish(run).catch(failed)
    ending.add(finished)
    void finished.then(() => ending.delete(finished))
    return finished
  }

  async function finish({ worker, performing }: WorkerRun): Promise<void> {
    const closed = worker.close()
    const timed_out = untilAllPerformed(performing).then(() =>
      sleep(close_limit_ms, undefined, { ref: false }),
    )
    await Promise.race([closed, timed_out])
    closed.catch(failed)
    await worker.terminate()
  }

  async function replace(): Promise<void> {
    await Promise.race([end(current), sleep(close_limit_ms, undefined, { ref: false })])
    if (!closing) current = start()
  }

  return {
    async close() {
      closing = true
      await restarting
      void end(current)
      await Promise.all(ending)
    },
    async restart() {
      restarting ??= replace().finally(() => {
        restarting = null
      })
      await restarting
    },
  }
}

async function untilAllPerformed(performing: Set<Promise<void>>): Promise<void> {
  while (performing.size > 0) await Promise.allSettled(performing)
}

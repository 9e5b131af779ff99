// The BullMQ worker of both backends.
import {
  type BackendFactory,
  type IQueueBackend,
  type Job,
  type JobJson,
  type JobProgress,
  Worker,
  type WorkerOptions,
} from 'bullmq'
import { setTimeout as sleep } from 'node:timers/promises'
import { createGate } from '#core/gate.ts'
import type { WorkerStart } from './backend.ts'
import { decodeWakeUp, type WakeUpData } from './wakeup-messages.ts'
import { wakeup_wait_ms, wakeups_per_job, workerSettings } from './settings.ts'

export class WakeUpWorker<B extends IQueueBackend, C> extends Worker<
  WakeUpData,
  void,
  string,
  B,
  JobProgress,
  C
> {
  /**
   * Any client of the backend may have added this job, so only valid ids are accepted. A job without a valid id is
   * completed without work: if it failed, BullMQ would deliver it again.
   */
  protected override createJob(found: JobJson, id: string): Job<WakeUpData, void> {
    const { opts, progress, timestamp, attemptsMade, attemptsStarted, stalledCounter } = found
    const data = JSON.stringify({ ids: decodeWakeUp(found.data) })
    return super.createJob(
      {
        id: found.id,
        name: found.name,
        data,
        opts,
        progress,
        timestamp,
        attemptsMade,
        attemptsStarted,
        stalledCounter,
        failedReason: '',
        returnvalue: '',
      },
      id,
    )
  }

  /**
   * BullMQ fetches again at once after an error. A connection that was given up rejects each fetch with its last error:
   * without a pause, that is an endless loop in which nothing else runs, not even a timer.
   */
  protected override async moveToActive(token: string, name?: string): Promise<Job<WakeUpData, void>> {
    try {
      return await super.moveToActive(token, name)
    } catch (error) {
      await sleep(workerSettings.runRetryDelay, undefined, { ref: false })
      throw error
    }
  }

  /**
   * Stops the renewal of locks. Otherwise the timer of the renewal would run on while a close waits for an unreachable
   * backend.
   */
  stopRenewing(): Promise<void> {
    return this.lockManager.close()
  }
}

/** A wake-up that waited too long in its worker. */
class WakeUpRefused extends Error {}

function ignoreRefused(error: unknown): void {
  if (!(error instanceof WakeUpRefused)) throw error
}

/** Creates a worker, which runs at once unless `options` has `autorun: false`. */
export function createWorker<B extends IQueueBackend, C>(
  { queue, concurrency, perform }: WorkerStart,
  options: Omit<WorkerOptions<C>, 'concurrency'>,
  factory: BackendFactory<B, C>,
  failed: (error: unknown) => void,
): WakeUpWorker<B, C> {
  const limited = createGate({
    running: concurrency,
    // The gate has room for all wake-ups that BullMQ may deliver at once. A wake-up that waits too long is dropped, and
    // the sweep finds its job.
    queue: {
      waiting: concurrency * wakeups_per_job,
      wait_ms: wakeup_wait_ms,
      refuse: () => new WakeUpRefused(),
    },
  })
  const worker = new WakeUpWorker<B, C>(
    queue,
    // This function returns nothing, because BullMQ runs a job again if its result cannot be serialized.
    async (job: Job<WakeUpData, void>, _token?: string, signal?: AbortSignal) => {
      await Promise.all(job.data.ids.map((id) => limited(() => perform(id, signal)).catch(ignoreRefused)))
    },
    { ...workerSettings, ...options, concurrency },
    factory,
  )
  worker.on('error', failed)
  worker.on('lockRenewalFailed', (ids) => {
    for (const id of ids) worker.cancelJob(id, 'the lock of the wake-up was lost')
  })
  return worker
}

// Performs jobs: claims one under a lease, lets its handler decide, settles that decision behind the fence, and wakes
// waiting requests.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Sql } from '#core/db.ts'
import { metrics } from '#core/metrics.ts'
import type { ClaimedJob } from '#domain/jobs/claim.ts'
import type { Settlement } from '#domain/jobs/settle.ts'
import type { Queue } from '#queue/queue.ts'
import { attempt } from './attempt.ts'
import { createCallPermits, type CallPermits } from './call-permits.ts'
import { createJobClaimer, applyCallRule, type JobClaim } from './claims.ts'
import type { WorkerContext } from './context.ts'
import { giveBack, settlementOf, type Decision } from './decision.ts'
import { handlerOf } from './handlers/index.ts'
import { factsOf } from './job-log.ts'
import { createLeases } from './leases.ts'
import { createRunningJobs } from './running-jobs.ts'
import { JOB_ONLY } from './settle.ts'
import { createShares, type Shares } from './shares.ts'
import type { Source } from './slots.ts'

export type Performer = {
  /** Performs the job if it can be claimed; resolves when it is settled or could not be claimed. Never rejects. */
  perform(job: { id: string; queue: string; by: Source }): Promise<void>
  /**
   * Performs a job that was made under a lease of this worker; `requested_at`: when the database was asked whether its queue is
   * paused, on the clock of `performance.now()`; it begins `begins_in_ms` later. Never rejects.
   */
  performClaimed(job: ClaimedJob, requested_at: number, begins_in_ms?: number): Promise<void>
  /** How many more jobs of the queue the sweep may bring. */
  room(queue: string): number
  /** How these may be shared among tenants. */
  shares: Pick<Shares, 'left' | 'hasUsedUpQuota'>
  /**
   * When the last bell of this queue came, on the clock of `performance.now()`; before any came, when the performer
   * was created.
   */
  lastWakeUpAt(queue: string): number
  /** For how long there has been no job of any queue, in milliseconds; 0 while one is under way. */
  idleFor(): number
  /** Calls back whenever there is a job after none was under way. */
  onFirstJob(called: () => void): void
  /** Takes no more jobs, and resolves when those under way are settled. */
  close(): Promise<void>
}

export type PerformerOptions = {
  worker: string
  queues: readonly string[]
  /** How many jobs of a queue may be under way at once. */
  concurrencyOf: (queue: string) => number
  /** A connection for leases and permits, so that their statements do not wait behind those of the jobs. */
  urgent_sql: Sql
}

export function createPerformer(
  context: WorkerContext,
  queue: Queue,
  { worker, queues, concurrencyOf, urgent_sql }: PerformerOptions,
): Performer {
  const { log } = context
  const leases = createLeases(urgent_sql, log)
  const shares = createShares(concurrencyOf)
  const running = createRunningJobs(queues, concurrencyOf, log)
  const claim = createJobClaimer(context, shares, worker)
  const isClosing = () => closing
  const permits = createCallPermits(urgent_sql, context.provider_watch, isClosing)
  const run_context: RunContext = { context, queue, permits, isClosing }
  const began = performance.now()
  const last_wakeups = new Map<string, number>()
  let closing = false

  async function claimAndRun(job: { id: string; queue: string }): Promise<void> {
    if (closing) return
    const claimed = await claim(job)
    if (claimed !== undefined)
      await withLease(claimed.job, (signal) => runClaimed(run_context, claimed, signal))
  }

  /** Keeps the job's lease, and counts it for its tenant, until `work` ends. */
  async function withLease(job: ClaimedJob, work: (signal: AbortSignal) => Promise<void>): Promise<void> {
    const release = shares.hold(job)
    const lease = leases.track(job)
    try {
      await work(lease.signal)
    } finally {
      lease.release()
      release()
    }
  }

  return {
    async perform({ id, queue: name, by }) {
      if (by === 'wakeup') last_wakeups.set(name, performance.now())
      if (closing) return
      await running.run({ id, queue: name }, by, () => claimAndRun({ id, queue: name }))
    },
    async performClaimed(job, requested_at, begins_in_ms = 0) {
      // Also while it waits for a slot, or for its time.
      await withLease(job, async (signal) => {
        const begins_at = performance.now() + begins_in_ms
        if (closing) return
        await running.run(job, 'scan', async () => {
          if (begins_in_ms > 0) await sleep(Math.max(0, begins_at - performance.now()))
          await runClaimed(run_context, { job: applyCallRule(job), requested_at }, signal)
        })
      })
    },
    room: running.room,
    shares,
    lastWakeUpAt: (name) => last_wakeups.get(name) ?? began,
    onFirstJob: running.onFirstJob,
    idleFor: running.idleFor,
    async close() {
      closing = true
      leases.stop()
      await running.ended()
      leases.close()
    },
  }
}

type RunContext = { context: WorkerContext; queue: Queue; permits: CallPermits; isClosing: () => boolean }

/** Makes an attempt at a job whose lease is kept. Never rejects. */
async function runClaimed(
  { context, queue, permits, isClosing }: RunContext,
  claimed: JobClaim,
  signal: AbortSignal,
): Promise<void> {
  const { job } = claimed
  const claimed_at = performance.now()
  metrics.jobWait.observe({ queue: job.queue, job: job.name }, Math.max(0, job.waited_ms / 1000))
  const settle = (decision: Decision) => settleDecision(context, queue, job, decision)
  const attemptUnlessClosing = () =>
    isClosing() ? settle(giveBack('the worker is stopping')) : attempt(context, job, settle, signal)
  await context.job_log.of(job, async () => {
    try {
      const settlement = await permits.run(claimed, signal, attemptUnlessClosing, (reason, unsent) =>
        // An earlier call of this attempt may have had an effect whose outcome is not written.
        settle(giveBack(reason, { unsent })),
      )
      reportEnd(context, queue, job, { settlement, run_ms: performance.now() - claimed_at })
    } catch (error) {
      context.log.warn({ err: error, ...factsOf(job) }, 'a job was left to its lease')
    }
  })
}

/** Writes a decision behind the fence. The settlement's outcome is `fenced` if the lease was lost. */
async function settleDecision(
  { sql }: WorkerContext,
  queue: Queue,
  job: ClaimedJob,
  decision: Decision,
): Promise<Settlement> {
  const settlement = settlementOf(job, handlerOf(job.name).definition, decision)
  const is_ours = await (decision.effects ?? JOB_ONLY).settle(sql, settlement)
  if (is_ours && decision.kind === 'retry' && decision.publish_state === true)
    queue.publish([{ id: job.id, state: settlement.state }])
  return is_ours ? settlement : { ...settlement, outcome: 'fenced' }
}

/** Counts and logs an attempt that has ended, and tells waiting requests of a job that is over. */
function reportEnd(
  { job_log, log }: WorkerContext,
  queue: Queue,
  job: ClaimedJob,
  { settlement, run_ms }: { settlement: Settlement; run_ms: number },
): void {
  const { outcome, state } = settlement
  metrics.jobRun.observe({ queue: job.queue, job: job.name, outcome }, run_ms / 1000)
  job_log.ended(job, settlement, run_ms)
  if (outcome === 'fenced') {
    metrics.fenced.inc({ queue: job.queue, job: job.name })
    log.warn(factsOf(job), 'a late write was fenced')
    return
  }
  if (state !== 'ready') {
    metrics.jobTotal.observe({ queue: job.queue, job: job.name, state }, (job.age_ms + run_ms) / 1000)
    queue.publish([{ id: job.id, state }])
  }
}

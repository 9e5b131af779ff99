// Performs jobs: claims a job under a lease, runs its handler, settles its decision behind the fence, and publishes
// the state to waiting requests.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Sql } from '#core/db.ts'
import { metrics } from '#core/metrics.ts'
import { observeTraced, withSpan } from '#core/tracing.ts'
import type { ClaimedJob } from '#domain/jobs/claim.ts'
import { DATABASE_FAILED, type Settlement } from '#domain/jobs/settle.ts'
import { NotStarted } from '#providers/permit.ts'
import type { Queue } from '#queue/queue.ts'
import { attempt } from './attempt.ts'
import { createCallPermits, type CallPermits } from './call-permits.ts'
import { createJobClaimer, applyCallRule, type JobClaim } from './claims.ts'
import type { WorkerContext } from './context.ts'
import { giveBack, giveBackUnstarted, type Decision } from './decision.ts'
import { handlerOf } from './handlers/index.ts'
import { endJobSpan, startJobSpan } from './job-span.ts'
import { factsOf, isTestAttempt } from './job-log.ts'
import { createLeases, type Lease } from './leases.ts'
import { createRunningJobs } from './running-jobs.ts'
import { settleDecision } from './settle-decision.ts'
import { createShares, type Shares } from './shares.ts'
import type { Source } from './slots.ts'

export type Performer = {
  /** Performs the job if it can be claimed. Resolves when it is settled or could not be claimed. Never rejects. */
  perform(job: { id: string; queue: string; by: Source }): Promise<void>
  /**
   * Performs a job that was inserted under a lease of this worker, after `begins_in_ms`. `requested_at`: when the
   * database was queried for pauses, on the clock of `performance.now()`. Never rejects.
   */
  performClaimed(job: ClaimedJob, requested_at: number, begins_in_ms?: number): Promise<void>
  /** The number of further jobs of the queue that a scan may claim. */
  room(queue: string): number
  /** How the slots of a queue are shared among tenants. */
  shares: Pick<Shares, 'remainingQuota' | 'hasUsedUpQuota'>
  /**
   * When the last wake-up of this queue arrived, on the clock of `performance.now()`. Before the first: when the
   * performer was created.
   */
  lastWakeUpAt(queue: string): number
  /** When the database last failed to renew a lease in time, on the clock of `performance.now()`. */
  databaseFailedAt(): number
  /** For how many milliseconds no job of any queue has run; 0 while a job runs. */
  idleFor(): number
  /** Sets a callback for each job that starts while no other job runs. */
  onFirstJob(called: () => void): void
  /** Claims no more jobs, gives back those whose call was not sent, and limits the time of the others. */
  stop(): void
  /** Resolves when the jobs that run now are settled. */
  close(): Promise<void>
}

export type PerformerOptions = {
  worker: string
  queues: readonly string[]
  /** The concurrency of a queue. */
  concurrencyOf: (queue: string) => number
  /** A connection for leases and permits, so that they do not wait for the statements of jobs. */
  urgent_sql: Sql
  /** How long calls that were sent may go on after `close`. */
  call_timeout_ms: number
}

export function createPerformer(
  context: WorkerContext,
  queue: Queue,
  { worker, queues, concurrencyOf, urgent_sql, call_timeout_ms }: PerformerOptions,
): Performer {
  const { log } = context
  const leases = createLeases(urgent_sql, log)
  const shares = createShares(concurrencyOf)
  const running = createRunningJobs(queues, concurrencyOf, log)
  const claim = createJobClaimer(context, shares, worker)
  const isClosing = () => closing
  const permits = createCallPermits(
    urgent_sql,
    // The attempt has begun, so its mode is remembered.
    (tenant_id) => context.modes.contextOf(context.modes.remembered(tenant_id) !== 'test').provider_watch,
    () => closing || !context.database.isCurrent(),
  )
  const run_context: RunContext = { context, queue, permits, isClosing }
  const created_at = performance.now()
  const last_wakeups = new Map<string, number>()
  let closing = false

  async function claimAndRun(job: { id: string; queue: string }): Promise<void> {
    if (closing) return
    await context.database.track(async () => {
      const claimed = await claim(job)
      if (claimed !== undefined)
        await withLease(claimed.job, (lease) => runClaimed(run_context, claimed, lease))
    })
  }

  /** Renews the job's lease and counts the job for its tenant until `work` ends. */
  async function withLease(job: ClaimedJob, work: (lease: Lease) => Promise<void>): Promise<void> {
    context.idleness.recordWork()
    const release = shares.acquire(job)
    const lease = leases.track(job)
    try {
      await work(lease)
    } finally {
      lease.release()
      release()
      context.idleness.recordWork()
    }
  }

  return {
    async perform({ id, queue: name, by }) {
      if (by === 'wakeup') last_wakeups.set(name, performance.now())
      if (closing) return
      await running.run({ id, queue: name }, by, () => claimAndRun({ id, queue: name }))
    },
    async performClaimed(job, requested_at, begins_in_ms = 0) {
      const claimed_at = performance.now()
      // The lease is also renewed while the job waits for a slot or for its start time.
      const perform = async (lease: Lease) => {
        const begins_at = performance.now() + begins_in_ms
        const run = () =>
          runClaimed(run_context, { job: applyCallRule(job), requested_at, claimed_at }, lease)
        // A job that was claimed while the worker stopped is given back, without a slot.
        if (closing) return await run()
        await running.run(job, 'scan', async () => {
          if (begins_in_ms > 0) await sleep(Math.max(0, begins_at - performance.now()))
          await run()
        })
      }
      await context.database.track(() => withLease(job, perform))
    },
    room: running.room,
    shares,
    lastWakeUpAt: (name) => last_wakeups.get(name) ?? created_at,
    onFirstJob: running.onFirstJob,
    databaseFailedAt: () => leases.failedAt(),
    idleFor: running.idleFor,
    stop() {
      closing = true
      leases.stop(call_timeout_ms)
    },
    async close() {
      await running.allEnded()
      leases.close()
    },
  }
}

type RunContext = { context: WorkerContext; queue: Queue; permits: CallPermits; isClosing: () => boolean }

/** Makes an attempt at a leased job, within a span if its trace is sampled. Never rejects. */
async function runClaimed(run: RunContext, claimed: JobClaim, lease: Lease): Promise<void> {
  const span = startJobSpan(claimed)
  const settlement = await withSpan(span, () => runAttempt(run, claimed, lease))
  if (span !== undefined) endJobSpan(run.context, span, claimed.job, settlement)
}

/** Makes an attempt. The settlement is undefined if it could not be written. Never rejects. */
async function runAttempt(
  { context, queue, permits, isClosing }: RunContext,
  claimed: JobClaim,
  lease: Lease,
): Promise<Settlement | undefined> {
  const { job } = claimed
  const { signal } = lease
  const began_at = performance.now()
  const settle = (decision: Decision) => settleDecision(context, queue, { job, lease, decision, isClosing })
  const attemptUnlessClosing = () =>
    isClosing() ? settle(giveBack('the worker is stopping')) : attempt(context, job, settle, signal)
  return await context.job_log.of(job, async () => {
    try {
      const settlement = await permits.run(claimed, lease, attemptUnlessClosing, (error, unsent) => {
        const decision =
          error instanceof NotStarted
            ? giveBackUnstarted(error)
            : giveBack(error.message, { database_failed: true })
        // `unsent` is false if an earlier call of this attempt may have had an effect that is not written.
        return settle({ ...decision, unsent })
      })
      reportEnd(context, queue, job, { settlement, run_ms: performance.now() - began_at })
      return settlement
    } catch (error) {
      context.job_log.unsettled(job, error)
      return undefined
    } finally {
      // The attempt has found out by now whether it counts.
      if (!isTestAttempt())
        observeTraced(metrics.jobWait, { queue: job.queue, job: job.name }, Math.max(0, job.waited_ms / 1000))
    }
  })
}

/**
 * Counts and logs an ended attempt, and publishes the state of a finished job to waiting requests. An attempt of test
 * mode is not counted.
 */
function reportEnd(
  { job_log, log }: WorkerContext,
  queue: Queue,
  job: ClaimedJob,
  { settlement, run_ms }: { settlement: Settlement; run_ms: number },
): void {
  const { outcome, state } = settlement
  job_log.ended(job, settlement, run_ms)
  if (!isTestAttempt()) countEnd(job, { settlement, run_ms })
  if (outcome === 'fenced') return log.warn(factsOf(job), 'a late write was fenced')
  if (state !== 'ready') queue.publish([{ id: job.id, state }])
}

function countEnd(job: ClaimedJob, { settlement, run_ms }: { settlement: Settlement; run_ms: number }): void {
  const { outcome, state } = settlement
  const labels = { queue: job.queue, job: job.name }
  observeTraced(metrics.jobRun, { ...labels, outcome }, run_ms / 1000)
  countFailure(job, settlement)
  if (outcome === 'fenced') return metrics.fenced.inc(labels)
  if (state !== 'ready') observeTraced(metrics.jobTotal, { ...labels, state }, (job.age_ms + run_ms) / 1000)
}

/** The outcomes of attempts that did not succeed, also if they have ended their job. */
const FINAL_FAILURES = new Set(['declined', 'parked', 'discarded'])

/**
 * Counts an attempt at a job with a provider call that did not succeed. A lookup that finds nothing has not failed, and
 * a failure of the database is not one of the provider.
 */
function countFailure(job: ClaimedJob, { outcome, failing, error }: Settlement): void {
  const { call } = handlerOf(job.name).definition
  if (call === null || outcome === 'fenced' || error?.code === DATABASE_FAILED) return
  if (!(failing === true || FINAL_FAILURES.has(outcome))) return
  metrics.failedAttempts.inc({ provider: call.provider, operation: call.operation, outcome })
}

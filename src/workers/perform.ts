// Performs jobs: claim under a lease, hand to the handler, settle behind the fence, wake who waits.
import { batcher } from '#core/batch.ts'
import { isUnavailable, type Sql } from '#core/db.ts'
import { metrics } from '#core/metrics.ts'
import { findStartable } from '#domain/jobs/dispatch.ts'
import { claimJobs, renewLeases, type ClaimedJob } from '#domain/jobs/claim.ts'
import type { Settlement } from '#domain/jobs/settle.ts'
import { JOB_NAMES, JOBS, type JobName } from '#jobs/index.ts'
import { NotStarted, permits, type Permit } from '#providers/permit.ts'
import type { Queue } from '#queue/main.ts'
import type { WorkerContext } from './context.ts'
import { EXHAUSTED, HANDLERS, type Handler } from './handlers/index.ts'
import { createPlaces, type Bringer, type Places } from './places.ts'
import { discarded, parked, returned, threw, unknown } from './settlement.ts'

const TOO_OFTEN = 'it ended in no known way, too often: perhaps it ends the process that performs it'

const RENEW_EVERY_MS = 1000
/** A renewal that the database has not answered yet has a few more behind it at most. */
const RENEWALS_AT_ONCE = 4
/**
 * A call may start this long after it was asked whether its queue is paused; then it is asked again. The promise is that none
 * starts more than a second after a pause was committed.
 */
const PERMIT_MS = 900
/** And right after an answer that took longer: it is as old as its way back, and no later one will be newer. */
const ANSWER_MS = 50

export type Performer = {
  /** Performs the job if it is due and free; resolves when it is settled or was not ours. Never rejects. */
  perform(job: { id: string; queue: string; by: Bringer }): Promise<void>
  /** How many more jobs of the queue a walk may bring. */
  room(queue: string): number
  /** When a bell of this queue last came, in `performance.now()` terms; at first, when the performer was made. */
  lastBellAt(queue: string): number
  /** Takes no more jobs, and resolves when those under way are settled. */
  close(): Promise<void>
}

export type PerformerOptions = {
  worker: string
  queues: readonly string[]
  /** Jobs of each queue that may be under way at once. */
  concurrency: number
  /** For leases and permits, whose statements must not wait behind those of the jobs. */
  urgent_sql: Sql
}

export function createPerformer(
  context: WorkerContext,
  queue: Queue,
  { worker, queues, concurrency, urgent_sql }: PerformerOptions,
): Performer {
  const { sql, log } = context
  const active = new Map<string, Promise<void>>()
  const leases = new Map<string, string>()
  const places = new Map<string, Places>(queues.map((name) => [name, createPlaces(concurrency)]))
  const began = performance.now()
  const bells = new Map<string, number>()
  let renewals = 0
  let closing = false

  type Claimed = { job: ClaimedJob; asked_at: number }
  const claim = batcher<string, Claimed | undefined>('claim', async (ids) => {
    const asked_at = performance.now()
    const jobs = await claimJobs(sql, ids, { worker, names: JOB_NAMES })
    const claimed = new Map(jobs.map((job) => [job.id, { job, asked_at }]))
    return ids.map((id) => claimed.get(id))
  })

  /** When it was asked; undefined: its calls may not start. */
  const askAgain = batcher<ClaimedJob, number | undefined>('permit', async (jobs) => {
    const asked_at = performance.now()
    const startable = await findStartable(urgent_sql, jobs)
    return jobs.map(({ id }) => (startable.has(id) ? asked_at : undefined))
  })

  // To connect and to prepare these takes several round trips: too many for a lease once the database is slow.
  void Promise.allSettled([renewLeases(urgent_sql, []), findStartable(urgent_sql, [])])
  const renewal = setInterval(() => {
    if (leases.size > 0 && renewals < RENEWALS_AT_ONCE) void renew()
  }, RENEW_EVERY_MS)

  async function renew(): Promise<void> {
    renewals += 1
    try {
      await renewLeases(
        urgent_sql,
        Array.from(leases, ([id, lease_token]) => ({ id, lease_token })),
      )
    } catch (error) {
      log.warn({ err: error }, 'leases could not be renewed')
    } finally {
      renewals -= 1
    }
  }

  async function run(id: string): Promise<void> {
    if (closing) return
    const claimed = await claim(id)
    if (claimed === undefined) return
    const { job } = claimed
    const claimed_at = performance.now()
    leases.set(id, job.lease_token)
    metrics.jobWait.observe({ queue: job.queue, job: job.name }, Math.max(0, job.waited_ms / 1000))
    try {
      await context.story.of(job, async () => {
        const settlement = closing
          ? await settled(returned(job, 'the worker is stopping'))
          : await perform(claimed)
        observe(job, settlement, performance.now() - claimed_at)
      })
    } finally {
      leases.delete(id)
    }
  }

  async function perform({ job, asked_at }: Claimed): Promise<Settlement> {
    const calls = { asked_at, answered_at: -Infinity, sent: false }
    const permit: Permit = {
      lane: job.queue,
      valid: () =>
        performance.now() - calls.asked_at < PERMIT_MS || performance.now() - calls.answered_at < ANSWER_MS,
      async renew() {
        const again = closing ? undefined : await askAgain(job)
        if (again === undefined) return false
        Object.assign(calls, { asked_at: again, answered_at: performance.now() })
        return true
      },
      used: () => void (calls.sent = true),
    }
    try {
      return await permits.run(permit, async () => await handle(job))
    } catch (error) {
      if (!(error instanceof NotStarted)) throw error
      // A call before this one may have had an effect, and its outcome is not written.
      return await settled({
        ...returned(job, error.message),
        outcome: calls.sent ? 'ambiguous' : 'returned',
        unsent: !calls.sent,
      })
    }
  }

  async function handle(job: ClaimedJob): Promise<Settlement> {
    const lost = lostTooOften(job)
    const exhausted = EXHAUSTED[job.name as JobName]
    if (lost !== undefined)
      return exhausted === undefined ? await settled(lost) : await exhausted(context, job, TOO_OFTEN)
    try {
      const payload = JOBS[job.name as JobName].payload.parse(job.payload)
      const handler = HANDLERS[job.name as JobName] as Handler<JobName>
      return await handler(context, { ...job, payload })
    } catch (error) {
      // Without the database nothing can be written; the lease lapses and the job is found again.
      if (isUnavailable(error) || error instanceof NotStarted) throw error
      log.error(
        { err: error, job_id: job.id, request_id: job.request_id, job: job.name, attempt: job.attempt },
        'a job threw',
      )
      const reason = error instanceof Error ? `${error.name}: ${error.message}` : 'threw'
      if (job.call?.look_only === true) return await settled(unknown(job, reason))
      if (job.attempt < job.max_attempts) return await settled(threw(job, reason))
      if (exhausted !== undefined) return await exhausted(context, job, reason)
      return await settled(job.call === null ? discarded(job, reason) : unknown(job, reason))
    }
  }

  async function settled(settlement: Settlement): Promise<Settlement> {
    return (await context.settle.job(settlement)) ? settlement : { ...settlement, outcome: 'fenced' }
  }

  function observe(job: ClaimedJob, settlement: Settlement, run_ms: number): void {
    const { outcome, state } = settlement
    metrics.jobRun.observe({ queue: job.queue, job: job.name, outcome }, run_ms / 1000)
    context.story.ended(job, settlement, run_ms)
    if (outcome === 'fenced') {
      metrics.fenced.inc({ queue: job.queue, job: job.name })
      log.warn(
        { job_id: job.id, request_id: job.request_id, job: job.name, attempt: job.attempt },
        'a late write was fenced',
      )
      return
    }
    if (outcome === 'misconfigured') {
      metrics.misconfigured.inc({ provider: context.processor.name })
      log.error(
        {
          job_id: job.id,
          request_id: job.request_id,
          job: job.name,
          reason: settlement.error?.message,
        },
        'a job waits for the configuration to be mended: credentials are refused or a key is missing',
      )
    }
    if (state !== 'ready') {
      metrics.jobTotal.observe({ queue: job.queue, job: job.name, state }, (job.age_ms + run_ms) / 1000)
      queue.publish([{ id: job.id, state }])
    }
  }

  return {
    async perform({ id, queue: name, by }) {
      if (by === 'bell') bells.set(name, performance.now())
      // A bell and a walk may bring the same job to one process.
      if (closing || active.has(id)) return
      const running = places
        .get(name)!
        .run(by, () => run(id))
        .catch((error: unknown) => log.warn({ err: error, job_id: id }, 'a job was left to its lease'))
      active.set(id, running)
      await running
      active.delete(id)
    },
    room: (name) => places.get(name)!.room(),
    lastBellAt: (name) => bells.get(name) ?? began,
    async close() {
      closing = true
      await Promise.all(active.values())
      clearInterval(renewal)
    },
  }
}

// Attempts count that ended in no known way. When they are used up a call is only looked up, one attempt a look; when a look
// ends its performer too, nobody looks by himself any more.
function lostTooOften(job: ClaimedJob): Settlement | undefined {
  const looks = job.call?.look_only === true
  if (job.attempt <= job.max_attempts + (looks ? 1 : 0)) return undefined
  if (job.call === null) return discarded(job, TOO_OFTEN)
  return looks ? parked(job, TOO_OFTEN) : unknown(job, TOO_OFTEN)
}

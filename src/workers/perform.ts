// Performs jobs: claim under a lease, let the handler decide, settle that behind the fence, wake who waits.
import { batcher } from '#core/batch.ts'
import { isUnavailable, type Sql } from '#core/db.ts'
import { metrics } from '#core/metrics.ts'
import { claimJobs, type ClaimedJob } from '#domain/jobs/claim.ts'
import { findStartable } from '#domain/jobs/dispatch.ts'
import type { Settlement } from '#domain/jobs/settle.ts'
import { JOB_NAMES } from '#jobs/index.ts'
import { NotStarted, permits, type Permit } from '#providers/permit.ts'
import type { Queue } from '#queue/main.ts'
import type { WorkerContext } from './context.ts'
import { discard, giveBack, park, retry, unknown, type Decision } from './decision.ts'
import { handlerOf } from './handlers/index.ts'
import { createLeases } from './leases.ts'
import { NOTHING } from './settle.ts'
import { settlementOf } from './settlement.ts'
import { createSlots, type Bringer, type Slots } from './slots.ts'

const TOO_OFTEN = 'it ended in no known way, too often: perhaps it ends the process that performs it'

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
  const leases = createLeases(urgent_sql, log)
  const active = new Map<string, Promise<void>>()
  const slots = new Map<string, Slots>(queues.map((name) => [name, createSlots(concurrency)]))
  const began = performance.now()
  const bells = new Map<string, number>()
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

  // To connect and to prepare it takes several round trips: too many for a permit once the database is slow.
  void findStartable(urgent_sql, []).catch(() => {})

  async function run(id: string): Promise<void> {
    if (closing) return
    const claimed = await claim(id)
    if (claimed === undefined) return
    const { job } = claimed
    const claimed_at = performance.now()
    const lease = leases.keep(job)
    metrics.jobWait.observe({ queue: job.queue, job: job.name }, Math.max(0, job.waited_ms / 1000))
    try {
      await context.story.of(job, async () => {
        const settlement = await perform(claimed, lease.signal)
        observe(job, settlement, performance.now() - claimed_at)
      })
    } finally {
      lease.release()
    }
  }

  async function perform({ job, asked_at }: Claimed, signal: AbortSignal): Promise<Settlement> {
    const calls = { asked_at, answered_at: -Infinity, sent: false }
    const permit: Permit = {
      lane: job.queue,
      signal,
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
      return await permits.run(permit, async () => await attempt(job, signal))
    } catch (error) {
      if (!(error instanceof NotStarted)) throw error
      // A call before this one may have had an effect, and its outcome is not written.
      return await settled(job, giveBack(error.message, { unsent: !calls.sent }))
    }
  }

  /** Writes what the handler decides, until it has decided how the attempt ends or the fence turns it away. */
  async function attempt(job: ClaimedJob, signal: AbortSignal): Promise<Settlement> {
    if (closing) return await settled(job, giveBack('the worker is stopping'))
    const handler = handlerOf(job.name)
    const giveUp = async (decision: Decision, reason: string) =>
      (await handler.giveUp?.(context, job, reason)) ?? decision
    const lost = lostTooOften(job)
    let over = lost !== undefined
    let next = () => (lost === undefined ? handler.attempt(context, job, signal) : giveUp(lost, TOO_OFTEN))
    for (;;) {
      try {
        const decision = await next()
        const settlement = await settled(job, decision)
        if (decision.kind !== 'go_on' || settlement.outcome === 'fenced') return settlement
        next = decision.next
      } catch (error) {
        // Without the database nothing can be written; the lease lapses and the job is found again.
        if (over || isUnavailable(error) || error instanceof NotStarted) throw error
        over = true
        log.error({ err: error, ...factsOf(job) }, 'a job threw')
        const reason = error instanceof Error ? `${error.name}: ${error.message}` : 'threw'
        const given_up = job.call === null ? discard(reason) : unknown(reason)
        next = async () =>
          job.call?.look_only === true || job.attempt < job.max_attempts
            ? retry(reason, { why: 'ambiguous', counts: true })
            : await giveUp(given_up, reason)
      }
    }
  }

  async function settled(job: ClaimedJob, decision: Decision): Promise<Settlement> {
    const settlement = settlementOf(job, handlerOf(job.name).definition, decision)
    const ours = await (decision.tells ?? NOTHING).settle(sql, settlement)
    return ours ? settlement : { ...settlement, outcome: 'fenced' }
  }

  function observe(job: ClaimedJob, settlement: Settlement, run_ms: number): void {
    const { outcome, state } = settlement
    metrics.jobRun.observe({ queue: job.queue, job: job.name, outcome }, run_ms / 1000)
    context.story.ended(job, settlement, run_ms)
    if (outcome === 'fenced') {
      metrics.fenced.inc({ queue: job.queue, job: job.name })
      log.warn(factsOf(job), 'a late write was fenced')
      return
    }
    if (outcome === 'misconfigured')
      log.error(
        { ...factsOf(job), reason: settlement.error?.message },
        'a job waits for the configuration to be mended: credentials are refused or a key is missing',
      )
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
      const running = slots
        .get(name)!
        .run(by, () => run(id))
        .catch((error: unknown) => log.warn({ err: error, job_id: id }, 'a job was left to its lease'))
      active.set(id, running)
      await running
      active.delete(id)
    },
    room: (name) => slots.get(name)!.room(),
    lastBellAt: (name) => bells.get(name) ?? began,
    async close() {
      closing = true
      leases.stop()
      await Promise.all(active.values())
      leases.close()
    },
  }
}

// Attempts count that ended in no known way. When they are used up a call is only looked up, one attempt a look; when a look
// ends its performer too, nobody looks by himself any more.
function lostTooOften({ attempt, max_attempts, call }: ClaimedJob): Decision | undefined {
  const looks = call?.look_only === true
  if (attempt <= max_attempts + (looks ? 1 : 0)) return undefined
  if (call === null) return discard(TOO_OFTEN)
  return looks ? park(TOO_OFTEN) : unknown(TOO_OFTEN)
}

function factsOf({ id, request_id, name, attempt }: ClaimedJob) {
  return { job_id: id, request_id, job: name, attempt }
}

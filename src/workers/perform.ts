// Performs jobs: claims one under a lease, lets its handler decide, settles that decision behind the fence, and wakes
// waiting requests.
import { setTimeout as sleep } from 'node:timers/promises'
import { batcher } from '#core/batch.ts'
import { isTakenReference, isUnavailable, type Sql } from '#core/db.ts'
import { metrics } from '#core/metrics.ts'
import { claimJobs, type ClaimedJob } from '#domain/jobs/claim.ts'
import { findStartable } from '#domain/jobs/claimable.ts'
import type { Settlement } from '#domain/jobs/settle.ts'
import { CALLS, JOB_NAMES } from '#jobs/index.ts'
import { NotStarted, permits, type Permit } from '#providers/permit.ts'
import type { Queue } from '#queue/queue.ts'
import type { WorkerContext } from './context.ts'
import { discard, giveBack, park, retry, settlementOf, unknown, type Decision } from './decision.ts'
import { handlerOf } from './handlers/index.ts'
import { factsOf } from './job-log.ts'
import { createLeases } from './leases.ts'
import { NOTHING } from './settle.ts'
import { createShares, type Shares } from './shares.ts'
import { createSlots, type Bringer, type Slots } from './slots.ts'

const TOO_OFTEN = 'too many attempts died or threw: perhaps the job ends the process that performs it'
const TAKEN = 'the provider answered with the id of another object'

/**
 * A call may start this long after the database was asked whether its queue is paused; later it must be asked again.
 * This keeps the promise that no call starts more than a second after a pause was committed.
 */
const PERMIT_MS = 900
/** A call may also start right after an answer that took longer than `PERMIT_MS`: asking again would be no better. */
const ANSWER_MS = 50

export type Performer = {
  /** Performs the job if it can be claimed; resolves when it is settled or could not be claimed. Never rejects. */
  perform(job: { id: string; queue: string; by: Bringer }): Promise<void>
  /**
   * Performs a job that was made under a lease of this worker; `asked_at`: when the database was asked whether its queue is
   * paused, on the clock of `performance.now()`; it begins `begins_in_ms` later. Never rejects.
   */
  performHeld(job: ClaimedJob, asked_at: number, begins_in_ms?: number): Promise<void>
  /** How many more jobs of the queue the sweep may bring. */
  room(queue: string): number
  /** How these may be shared among tenants. */
  shares: Pick<Shares, 'left' | 'usedUp'>
  /**
   * When the last bell of this queue came, on the clock of `performance.now()`; before any came, when the performer
   * was created.
   */
  lastBellAt(queue: string): number
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
  const { sql, log } = context
  const leases = createLeases(urgent_sql, log)
  const active = new Map<string, Promise<void>>()
  const slots = new Map<string, Slots>(queues.map((name) => [name, createSlots(concurrencyOf(name))]))
  const shares = createShares(concurrencyOf)
  const began = performance.now()
  const bells = new Map<string, number>()
  let last_at = began
  let calledAtFirst = () => {}
  let closing = false

  const credentials = Object.fromEntries(
    CALLS.flatMap(({ job, provider }) => {
      const used = context.credentials[provider]
      return used === undefined ? [] : [[job, used.fingerprint]]
    }),
  )

  type Claimed = { job: ClaimedJob; asked_at: number }
  const claim = batcher<{ id: string; queue: string }, Claimed | undefined>('claim', async (asked) => {
    const asked_at = performance.now()
    const ids = asked.map(({ id }) => id)
    const jobs = await shares.claiming(asked, (left) =>
      claimJobs(sql, ids, { worker, names: JOB_NAMES, shares: left, credentials }),
    )
    const claimed = new Map(jobs.map((job) => [job.id, { job: byItsRule(job), asked_at }]))
    return ids.map((id) => claimed.get(id))
  })

  /** When the database was asked; undefined when calls of the job may not start. */
  const askAgain = batcher<ClaimedJob, number | undefined>('permit', async (jobs) => {
    const asked_at = performance.now()
    const startable = await findStartable(urgent_sql, jobs)
    return jobs.map(({ id }) => (startable.has(id) ? asked_at : undefined))
  })

  // Connects and prepares the statement now: that takes several round trips, too many for a permit once the database
  // is slow.
  void findStartable(urgent_sql, []).catch(() => {})

  async function run(asked: { id: string; queue: string }): Promise<void> {
    if (closing) return
    const claimed = await claim(asked)
    if (claimed !== undefined) await holding(claimed.job, (signal) => runHeld(claimed, signal))
  }

  /** Keeps the job's lease, and counts it for its tenant, until `work` ends. */
  async function holding(job: ClaimedJob, work: (signal: AbortSignal) => Promise<void>): Promise<void> {
    const letGo = shares.hold(job)
    const lease = leases.keep(job)
    try {
      await work(lease.signal)
    } finally {
      lease.release()
      letGo()
    }
  }

  async function runHeld(claimed: Claimed, signal: AbortSignal): Promise<void> {
    const { job } = claimed
    const claimed_at = performance.now()
    metrics.jobWait.observe({ queue: job.queue, job: job.name }, Math.max(0, job.waited_ms / 1000))
    await context.job_log.of(job, async () => {
      try {
        const settlement = await perform(claimed, signal)
        observe(job, settlement, performance.now() - claimed_at)
      } catch (error) {
        log.warn({ err: error, ...factsOf(job) }, 'a job was left to its lease')
      }
    })
  }

  async function perform({ job, asked_at }: Claimed, signal: AbortSignal): Promise<Settlement> {
    const calls = { asked_at, answered_at: -Infinity, sent: false }
    const { call } = handlerOf(job.name).definition
    let over = () => {}
    const permit: Permit = {
      lane: job.queue,
      deadline_ms: call?.deadline_ms ?? null,
      signal,
      valid: () =>
        performance.now() - calls.asked_at < PERMIT_MS || performance.now() - calls.answered_at < ANSWER_MS,
      async renew() {
        const again = closing ? undefined : await askAgain(job)
        if (again === undefined) return false
        Object.assign(calls, { asked_at: again, answered_at: performance.now() })
        return true
      },
      used() {
        if (!calls.sent && call !== null) over = context.provider_watch.sent(call.provider, call.deadline_ms)
        calls.sent = true
      },
    }
    try {
      return await permits.run(permit, async () => await attempt(job, signal))
    } catch (error) {
      if (!(error instanceof NotStarted)) throw error
      // An earlier call of this attempt may have had an effect whose outcome is not written.
      return await settled(job, giveBack(error.message, { unsent: !calls.sent }))
    } finally {
      over()
    }
  }

  /** Settles what the handler decides; after `go_on` also its next decision, unless the fence refuses a write. */
  async function attempt(job: ClaimedJob, signal: AbortSignal): Promise<Settlement> {
    if (closing) return await settled(job, giveBack('the worker is stopping'))
    const handler = handlerOf(job.name)
    const giveUp = async (decision: Decision, reason: string) => {
      try {
        return (await handler.giveUp?.(context, job, reason)) ?? decision
      } catch (error) {
        if (isUnavailable(error) || error instanceof NotStarted) throw error
        // A handler that fails here too must not keep the job from ending.
        log.error({ err: error, ...factsOf(job) }, 'a job that is given up threw again')
        return job.call === null ? park(reason, { code: 'poison' }) : decision
      }
    }
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
        // Without the database nothing can be written: the lease lapses, and the job is claimed again.
        if (over || isUnavailable(error) || error instanceof NotStarted) throw error
        over = true
        log.error({ err: error, ...factsOf(job) }, 'a job threw')
        const is_taken = isTakenReference(error)
        const reason = is_taken ? TAKEN : error instanceof Error ? `${error.name}: ${error.message}` : 'threw'
        const given_up = job.call === null ? discard(reason) : unknown(reason)
        // Called again, the provider would answer the same.
        const is_last =
          (is_taken && job.call !== null) || (job.call?.look_only !== true && job.attempt >= job.max_attempts)
        next = async () =>
          is_last ? await giveUp(given_up, reason) : retry(reason, { why: 'ambiguous', counts: true })
      }
    }
  }

  async function settled(job: ClaimedJob, decision: Decision): Promise<Settlement> {
    const settlement = settlementOf(job, handlerOf(job.name).definition, decision)
    const ours = await (decision.tells ?? NOTHING).settle(sql, settlement)
    if (ours && decision.kind === 'retry' && decision.reached === true)
      queue.publish([{ id: job.id, state: settlement.state }])
    return ours ? settlement : { ...settlement, outcome: 'fenced' }
  }

  function observe(job: ClaimedJob, settlement: Settlement, run_ms: number): void {
    const { outcome, state } = settlement
    metrics.jobRun.observe({ queue: job.queue, job: job.name, outcome }, run_ms / 1000)
    context.job_log.ended(job, settlement, run_ms)
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

  async function inSlot(id: string, name: string, by: Bringer, work: () => Promise<void>): Promise<void> {
    // A bell and the sweep may bring the same job to one process.
    if (closing || active.has(id)) return
    const running = slots
      .get(name)!
      .run(by, work)
      .catch((error: unknown) => log.warn({ err: error, job_id: id }, 'a job could not be claimed'))
    active.set(id, running)
    if (active.size === 1) calledAtFirst()
    await running
    active.delete(id)
    last_at = performance.now()
  }

  return {
    async perform({ id, queue: name, by }) {
      if (by === 'bell') bells.set(name, performance.now())
      await inSlot(id, name, by, () => run({ id, queue: name }))
    },
    async performHeld(job, asked_at, begins_in_ms = 0) {
      // Also while it waits for a slot, or for its time.
      await holding(job, async (signal) => {
        const begins_at = performance.now() + begins_in_ms
        await inSlot(job.id, job.queue, 'walk', async () => {
          if (begins_in_ms > 0) await sleep(Math.max(0, begins_at - performance.now()))
          await runHeld({ job: byItsRule(job), asked_at }, signal)
        })
      })
    },
    room: (name) => slots.get(name)!.room(),
    shares,
    lastBellAt: (name) => bells.get(name) ?? began,
    onFirstJob(called) {
      calledAtFirst = called
    },
    idleFor: () => (active.size > 0 ? 0 : performance.now() - last_at),
    async close() {
      closing = true
      leases.stop()
      await Promise.all(active.values())
      leases.close()
    },
  }
}

// Where no key protects from a second effect, a call in doubt is never sent again; where none matters, it always is.
function byItsRule(job: ClaimedJob): ClaimedJob {
  const { call } = job
  const rule = handlerOf(job.name).definition.call?.on_ambiguous
  if (call === null || rule === 'resend_same_key') return job
  const look_only = rule === 'look' && (call.look_only || call.in_doubt)
  return { ...job, call: { ...call, look_only } }
}

// Only attempts that died or threw count. When they are used up, the call becomes unknown and is only looked up. A look
// that dies counts too: after one of these the job is parked.
function lostTooOften({ attempt, max_attempts, call }: ClaimedJob): Decision | undefined {
  const looks = call?.look_only === true
  if (attempt <= max_attempts + (looks ? 1 : 0)) return undefined
  if (call === null) return discard(TOO_OFTEN)
  return looks ? park(TOO_OFTEN) : unknown(TOO_OFTEN)
}

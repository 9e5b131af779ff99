// Performs jobs: claim under a lease, hand to the handler, settle behind the fence, wake who waits.
import { batcher } from '#core/batch.ts'
import { isUnavailable } from '#core/db.ts'
import { metrics } from '#core/metrics.ts'
import { claimJobs, renewLeases, type ClaimedJob, type Settlement } from '#domain/jobs.ts'
import { JOB_NAMES, JOBS, type JobName, type PayloadOf } from '#jobs/index.ts'
import type { Queue } from '#queue/main.ts'
import type { WorkerContext } from './context.ts'
import { applyNotification } from './notifications.ts'
import { parkPoison } from './parked.ts'
import { authorizePayment, cancelPayment, capturePayment } from './payments.ts'
import { createRefund } from './refunds.ts'
import { discarded, parked, returned, threw, unknown } from './settlement.ts'

type Handler<Name extends JobName> = (
  context: WorkerContext,
  job: ClaimedJob & { payload: PayloadOf<Name> },
) => Promise<Settlement>

const HANDLERS: { [Name in JobName]: Handler<Name> } = {
  'payment.authorize': authorizePayment,
  'payment.capture': capturePayment,
  'payment.cancel': cancelPayment,
  'refund.create': createRefund,
  'notification.apply': applyNotification,
}

/** Jobs that end otherwise than the rest when no attempt is left: what a provider told us is never given up. */
const EXHAUSTED: {
  [Name in JobName]?: (context: WorkerContext, job: ClaimedJob, reason: string) => Promise<Settlement>
} = { 'notification.apply': parkPoison }

const TOO_OFTEN = 'it ended in no known way, too often: perhaps it ends the process that performs it'

const RENEW_EVERY_MS = 1000
/** A claim older than this when its turn comes is given back: the queue may have been paused since. */
const STALE_CLAIM_MS = 700

export type Performer = {
  /** Performs the job if it is due and free; resolves when it is settled or was not ours. Never rejects. */
  perform(id: string): Promise<void>
  /** Jobs under way. */
  active(): number
  /** When a claim last succeeded, in `performance.now()` terms. */
  lastClaimAt(): number
  /** Takes no more jobs, and resolves when those under way are settled. */
  close(): Promise<void>
}

export function createPerformer(context: WorkerContext, queue: Queue, worker: string): Performer {
  const { sql, log } = context
  const active = new Map<string, Promise<void>>()
  const leases = new Map<string, string>()
  let lastClaimAt = performance.now()
  let closing = false

  const claim = batcher<string, ClaimedJob | undefined>('claim', async (ids) => {
    const claimed = new Map(
      (await claimJobs(sql, ids, { worker, names: JOB_NAMES })).map((job) => [job.id, job]),
    )
    return ids.map((id) => claimed.get(id))
  })

  const renewal = setInterval(() => {
    if (leases.size > 0) void renew()
  }, RENEW_EVERY_MS)

  async function renew(): Promise<void> {
    try {
      await renewLeases(
        sql,
        Array.from(leases, ([id, lease_token]) => ({ id, lease_token })),
      )
    } catch (error) {
      log.warn({ err: error }, 'leases could not be renewed')
    }
  }

  async function run(id: string): Promise<void> {
    const asked_at = performance.now()
    const job = await claim(id)
    if (job === undefined) return
    const claimed_at = performance.now()
    lastClaimAt = claimed_at
    leases.set(id, job.lease_token)
    metrics.jobWait.observe({ queue: job.queue, job: job.name }, Math.max(0, job.waited_ms / 1000))
    const stale = performance.now() - asked_at > STALE_CLAIM_MS || closing
    try {
      await context.story.of(job, async () => {
        const settlement = stale
          ? await settled(returned(job, closing ? 'the worker is stopping' : 'claimed too long ago'))
          : await handle(job)
        observe(job, settlement, performance.now() - claimed_at)
      })
    } finally {
      leases.delete(id)
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
      if (isUnavailable(error)) throw error
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
    async perform(id) {
      // A bell and a direct claim may bring the same job to one process.
      if (closing || active.has(id)) return
      const running = run(id).catch((error: unknown) =>
        log.warn({ err: error, job_id: id }, 'a job was left to its lease'),
      )
      active.set(id, running)
      await running
      active.delete(id)
    },
    active: () => active.size,
    lastClaimAt: () => lastClaimAt,
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

// The log lines of a job: one for each attempt and one for each provider call. Each line has the id of the API request
// and the ids of the job's rows. A waiting notification also gets a line when it is compared, because it may never have
// a job.
import { AsyncLocalStorage } from 'node:async_hooks'
import { createSampler, withoutRedaction, type Log } from '#core/log.ts'
import { throttle } from '#core/seldom.ts'
import type { ClaimedJob } from '#domain/jobs/claim.ts'
import { DATABASE_FAILED, type Settlement } from '#domain/jobs/settle.ts'
import { storedFields, type ComparedNotification } from '#domain/notifications/store.ts'

type Facts = Record<string, unknown>

const MISCONFIGURED_INTERVAL_MS = 60_000
const DATABASE_FAILED_INTERVAL_MS = 10_000

const job_facts = new AsyncLocalStorage<Facts>()

export type JobLog = {
  /** Runs `work`. Facts from `addLogFacts` and lines from `call` within `work` belong to this job. */
  of<T>(job: ClaimedJob, work: () => Promise<T>): Promise<T>
  /** Logs how an attempt ended. */
  ended(job: ClaimedJob, settlement: Settlement, ms: number): void
  /** Logs that an attempt could not be settled. */
  unsettled(job: ClaimedJob, error: unknown): void
  /** Logs a provider call. `reported`: a text that is shown in the log only; such a call is always logged. */
  call(call: { operation: string; outcome: string; duration_ms: number; reported?: string }): void
  /** Logs the new state of a notification that was waiting. */
  waited(notification: ComparedNotification): void
}

/**
 * `log_sample_rate`: the share of requests whose jobs are logged, 0 to 1. Jobs that end unknown or discarded are
 * always logged.
 */
export function createJobLog(log: Log, log_sample_rate: number): JobLog {
  const sampled = createSampler(log_sample_rate)
  const lines = withoutRedaction(log)
  const misconfigured = throttle(
    (suppressed, facts: Facts) =>
      log.error(
        { ...facts, suppressed },
        'a job waits for the configuration: a variable or a key is missing',
      ),
    MISCONFIGURED_INTERVAL_MS,
  )
  const warnOfDatabase = throttle(
    (suppressed, facts: Facts) =>
      log.warn({ ...facts, suppressed }, 'the database failed during an attempt: the job is given back'),
    DATABASE_FAILED_INTERVAL_MS,
  )
  const warnOfUnsettled = throttle(
    (suppressed, facts: Facts) =>
      log.warn(
        { ...facts, suppressed },
        'an attempt could not be settled: the job is claimed again when its lease expires',
      ),
    DATABASE_FAILED_INTERVAL_MS,
  )
  /** Jobs whose provider refused our credentials: the provider watch logs one line for all of them. */
  const refused = new WeakSet<Facts>()
  const isLogged = ({ request_id, job_id }: Facts) => sampled(String(request_id ?? job_id))

  return {
    of: (job, work) => job_facts.run(idsOf(job), work),
    ended(job, { outcome, state, error }, ms) {
      const facts = factsOf(job)
      if (outcome === 'misconfigured' && !refused.has(facts))
        misconfigured({ ...facts, reason: error?.message })
      if (error?.code === DATABASE_FAILED) warnOfDatabase({ ...facts, reason: error.message })
      const is_problem = state === 'unknown' || state === 'discarded'
      if (!is_problem && !isLogged(facts)) return
      const line = { ...facts, outcome, state, ms: Math.round(ms), reason: error?.message }
      lines[is_problem ? 'warn' : 'info'](line, 'an attempt ended')
    },
    unsettled: (job, error) => warnOfUnsettled({ err: error, ...factsOf(job) }),
    call({ operation, outcome, duration_ms, reported }) {
      const facts = job_facts.getStore()
      if (facts !== undefined && outcome === 'misconfigured') refused.add(facts)
      if (facts === undefined || (reported === undefined && !isLogged(facts))) return
      const line = { ...facts, operation, outcome, ms: Math.round(duration_ms), reported }
      lines.info(line, 'the provider answered')
    },
    waited({ id, event_id, request_id, ...stored }) {
      if (!isLogged({ request_id, job_id: id })) return
      const line = { request_id, notification_id: id, event_id, ...storedFields(stored) }
      lines.info(line, 'a waiting notification was compared')
    },
  }
}

/** Adds ids and results to the log lines of the running job. */
export function addLogFacts(facts: Record<string, string | number | null>): void {
  Object.assign(job_facts.getStore() ?? {}, facts)
}

/** Records in the log lines of the running job that it is of test mode, so that it counts in no metric. */
export function markAsTest(): void {
  addLogFacts({ mode: 'test' })
}

/** Whether the running job is of a tenant in test mode, or applies a notification of test mode. */
export function isTestAttempt(): boolean {
  return job_facts.getStore()?.['mode'] === 'test'
}

/** The ids of the job, and the ids of its rows once they are known. */
export function factsOf(job: ClaimedJob): Facts {
  return job_facts.getStore() ?? idsOf(job)
}

function idsOf({ id, name, attempt, request_id, tenant_id, payload }: ClaimedJob): Facts {
  return { job_id: id, job: name, attempt, request_id, tenant_id, ...(payload as Facts) }
}

// Waiting for a job's outcome: woken by the one channel, by polling while that is away, never longer than asked.
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Sql } from '#core/db.ts'
import { AppError, ERRORS, type ErrorCode } from '#core/errors.ts'
import type { Log } from '#core/log.ts'
import { findOutcomes, type JobOutcome } from '#domain/jobs.ts'
import type { Queue } from '#queue/main.ts'

/** Waiting ends on these; `ready` and `running` go on. */
const ENDED = new Set(['succeeded', 'failed', 'unknown', 'discarded'])
const POLL_MS = 1000
const AWAY_POLL_MS = 50
const DEFAULT_WAIT_S = 10
const MAX_WAIT_S = 30
/** What a stopping process still grants to those who wait. */
const CLOSE_MS = 5_000

export type Waiters = {
  /** The state in which the job ended, or undefined when it had not after `wait_ms`. */
  wait(job_id: string, wait_ms: number): Promise<string | undefined>
  /** Tells waiters what was heard. */
  heard(outcomes: { id: string; state: string }[]): void
  /** New waits end at once; those under way have a few seconds more. The work goes on, the answer is 202. */
  close(): void
}

export function createWaiters(sql: Sql, queue: Queue, log: Log): Waiters {
  const waiting = new Map<string, Set<(state: string | undefined) => void>>()
  let polled_at = performance.now()
  let polling = false
  let closed = false

  function heard(outcomes: { id: string; state: string }[]): void {
    for (const { id, state } of outcomes) {
      if (ENDED.has(state)) waiting.get(id)?.forEach((wake) => wake(state))
    }
  }

  // A message can be lost with the connection that carried it: the database is asked now and then in any case.
  const timer = setInterval(() => {
    const due_ms = queue.away() ? AWAY_POLL_MS : POLL_MS
    if (polling || waiting.size === 0 || performance.now() - polled_at < due_ms) return
    polling = true
    findOutcomes(sql, Array.from(waiting.keys()))
      .then(heard, (error: unknown) => log.debug({ err: error }, 'waiters could not poll'))
      .finally(() => {
        polling = false
        polled_at = performance.now()
      })
  }, AWAY_POLL_MS)
  timer.unref()

  return {
    heard,
    wait(job_id, wait_ms) {
      if (closed || wait_ms === 0) return Promise.resolve(undefined)
      return new Promise((resolve) => {
        const wakes = waiting.get(job_id) ?? new Set()
        waiting.set(job_id, wakes)
        const wake = (state: string | undefined) => {
          clearTimeout(timeout)
          wakes.delete(wake)
          if (wakes.size === 0) waiting.delete(job_id)
          resolve(state)
        }
        const timeout = setTimeout(wake, wait_ms, undefined)
        wakes.add(wake)
      })
    },
    close() {
      closed = true
      setTimeout(() => {
        clearInterval(timer)
        for (const wakes of waiting.values()) wakes.forEach((wake) => wake(undefined))
      }, CLOSE_MS).unref()
    },
  }
}

/** How long to wait for the outcome, from `Prefer` (RFC 7240); says what was applied. */
export function preferredWait(request: FastifyRequest, reply: FastifyReply): number {
  const header = request.headers.prefer
  const preferences = (Array.isArray(header) ? header.join(',') : (header ?? ''))
    .split(/[,;]/)
    .map((part) => part.trim().toLowerCase())
  if (preferences.includes('respond-async')) {
    reply.header('preference-applied', 'respond-async')
    return 0
  }
  const wait = preferences
    .map((part) => /^wait=(\d{1,4})$/.exec(part)?.[1])
    .find((seconds) => seconds !== undefined)
  if (wait === undefined) return DEFAULT_WAIT_S * 1000
  const seconds = Math.min(Number(wait), MAX_WAIT_S)
  reply.header('preference-applied', `wait=${seconds}`)
  return seconds * 1000
}

/** The refusal that a job ended in, for the caller who waited for it. */
export function refusal(error: JobOutcome['last_error'], context: Record<string, unknown>): AppError {
  const code = error !== null && error.code in ERRORS ? (error.code as ErrorCode) : 'processor_error'
  const facts = { decline_code: error?.decline_code, processor_code: error?.processor_code, ...context }
  return new AppError(code, {
    message: error?.message,
    context: Object.fromEntries(Object.entries(facts).filter(([, v]) => v != null)),
  })
}

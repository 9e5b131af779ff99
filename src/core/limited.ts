// Counts the requests that limits refused.
import { AppError, type ErrorCode } from './errors.ts'
import { metrics } from './metrics.ts'

const LIMIT_CODES: ReadonlySet<ErrorCode> = new Set(['rate_limited', 'overloaded'])

/** Counts a refused request if a limit refused it. */
export function countLimited(error: unknown): void {
  if (error instanceof AppError && LIMIT_CODES.has(error.code))
    metrics.requestsLimited.inc({ reason: error.limited_by ?? 'other' })
}

// How long a worker that was stopped goes on.
import type { Config } from '#core/config.ts'
import { CALLS } from '#jobs/index.ts'

/** The limit of the requests of jobs that declare no call, such as deliveries. */
const UNDECLARED_CALL_MS = 15_000
/** The time to settle jobs and close connections after the last call. */
const CLOSING_MS = 15_000

/**
 * How long calls that were sent may go on, in milliseconds. Default: as long as the longest call of these queues may
 * take, so that each ends by itself.
 */
export function callTimeoutOf(
  { SHUTDOWN_TIMEOUT_S }: Pick<Config, 'SHUTDOWN_TIMEOUT_S'>,
  queues: readonly string[],
): number {
  if (SHUTDOWN_TIMEOUT_S !== undefined) return SHUTDOWN_TIMEOUT_S * 1000
  const limits_ms = CALLS.filter(({ queue }) => queues.includes(queue)).map(({ deadline_ms }) => deadline_ms)
  return Math.max(UNDECLARED_CALL_MS, ...limits_ms)
}

/** The time after which a stopped worker ends whatever it still does, in milliseconds. */
export function shutdownTimeoutOf(
  config: Pick<Config, 'SHUTDOWN_TIMEOUT_S'>,
  queues: readonly string[],
): number {
  return callTimeoutOf(config, queues) + CLOSING_MS
}

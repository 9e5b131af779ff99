// Serializes changes of webhook endpoints. A change reads, checks and writes a row, and occupies a connection until it
// ends.
import { AppError } from '#core/errors.ts'
import { createGate, createGates } from '#core/gate.ts'

const refuse = () =>
  new AppError('rate_limited', {
    limited_by: 'endpoints',
    retry_after_s: 1,
    message: 'Too many changes of webhook endpoints at once: request fewer.',
  })
const QUEUE = { waiting: 256, wait_ms: 5_000, refuse }
/**
 * Runs one change at a time for each tenant, and so for each endpoint. So at most one connection of this process waits
 * for the row of an endpoint, and no tenant fills the queue of `processGate`.
 */
const tenantGates = createGates({ running: 1, queue: QUEUE })
const processGate = createGate({ running: 2, queue: QUEUE })

/** Runs `change` after earlier ones. Throws `rate_limited` if too many wait or the wait takes too long. */
export async function serializeChange<T>(tenant_id: string, change: () => Promise<T>): Promise<T> {
  return await tenantGates(tenant_id, async () => await processGate(change))
}

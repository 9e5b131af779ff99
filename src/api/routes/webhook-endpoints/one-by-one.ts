// Changes of endpoints that read a row, judge it and write: each holds a connection meanwhile.
import { AppError } from '#core/errors.ts'
import { createGate, createGates } from '#core/gate.ts'

const refuse = () =>
  new AppError('rate_limited', {
    retry_after_s: 1,
    message: 'Too many changes of webhook endpoints at once: ask for fewer.',
  })
const QUEUE = { waiting: 256, wait_ms: 5_000, refuse }
/**
 * One at a time of a tenant, and so of an endpoint: no other connection of this process waits for its row, and no tenant
 * fills the line of all by naming many endpoints.
 */
const tenantGates = createGates({ running: 1, queue: QUEUE })
const processGate = createGate({ running: 2, queue: QUEUE })

/** Runs `change` when it is its turn. Throws `rate_limited` when too many wait, or the wait takes too long. */
export async function serializeChange<T>(tenant_id: string, change: () => Promise<T>): Promise<T> {
  return await tenantGates(tenant_id, async () => await processGate(change))
}

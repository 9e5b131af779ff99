// Helpers of the event measures: endpoints, events as payments create them, and the receiver's statistics.
import { setTimeout as sleep } from 'node:timers/promises'
import { freshKey } from '#test/client.ts'
import type { Key, System } from '../../system.ts'

/** The receiver is on loopback with plain HTTP, which production refuses. */
export const ALLOW_LOOPBACK = { WEBHOOKS_ALLOW_CIDRS: '127.0.0.0/8', NODE_ENV: 'test' }
const PAD = 'An order of the shop, as long as the data of an event usually is. '.repeat(8)

/** Statistics of a name: number of events, time between the first and the last, and delays after their creation. */
export type Received = { count: number; took_ms: number; p50_ms: number; p99_ms: number }

export async function received(receiver: string, name: string): Promise<Received> {
  return (await (await fetch(`${receiver}/stats/${name}`)).json()) as Received
}

export async function resetStats(receiver: string, name: string): Promise<void> {
  await fetch(`${receiver}/stats/${name}`, { method: 'DELETE' })
}

export async function registerBenchEndpoint(
  api: string,
  { authorization }: Key,
  fields: object,
): Promise<string> {
  const response = await fetch(`${api}/v1/webhook_endpoints`, {
    method: 'POST',
    headers: { authorization, 'content-type': 'application/json' },
    body: JSON.stringify({ idempotency_key: freshKey(), types: ['*'], max_in_flight: 100, ...fields }),
  })
  if (response.status !== 201) throw new Error(`the endpoint was not created: ${await response.text()}`)
  return ((await response.json()) as { id: string }).id
}

export async function deleteEndpoint(api: string, { authorization }: Key, id: string): Promise<void> {
  await fetch(`${api}/v1/webhook_endpoints/${id}`, { method: 'DELETE', headers: { authorization } })
}

/** Writes this many events per tenant in one commit. */
export async function writeEvents({ sql }: System, keys: Key[], of_each: number): Promise<void> {
  const tenants = keys.map(({ tenant_id }) => tenant_id)
  await sql`
    insert into events (tenant_id, id, type, subject_id, data)
    select t.tenant_id, uuidv7(), 'payment.captured', s.id, jsonb_build_object('id', s.id, 'description', ${PAD}::text)
    from generate_series(1, ${of_each}::integer) n
    cross join unnest(${tenants}::uuid[]) as t(tenant_id) cross join lateral (select uuidv7() as id, n) s`
}

/** Writes events at this rate, each in its own commit, for the tenants in rotation. */
export async function writeEventsAt(
  system: System,
  keys: Key[],
  { rate, seconds }: { rate: number; seconds: number },
): Promise<void> {
  const started_at = performance.now()
  const writes: Promise<void>[] = []
  for (let n = 0; n < rate * seconds; n++) {
    const wait_ms = started_at + (n * 1000) / rate - performance.now()
    if (wait_ms > 0) await sleep(wait_ms)
    writes.push(writeEvents(system, [keys[n % keys.length]!], 1))
  }
  await Promise.all(writes)
}

/** Resolves when this many events have arrived. Rejects if none arrives for 30 s. */
export async function untilReceived(receiver: string, name: string, count: number): Promise<Received> {
  let [last, quiet_since] = [-1, performance.now()]
  for (;;) {
    const stats = await received(receiver, name)
    if (stats.count >= count) return stats
    if (stats.count !== last) [last, quiet_since] = [stats.count, performance.now()]
    if (performance.now() - quiet_since > 30_000)
      throw new Error(`only ${stats.count} of ${count} events arrived`)
    await sleep(50)
  }
}

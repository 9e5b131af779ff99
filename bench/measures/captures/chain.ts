// The chain floor: its two processes, its tables, and authorized payments.
import postgres from 'postgres'
import { randomUUIDv7 } from 'node:crypto'
import { closedLoop, request, type Load } from '../../load.ts'
import type { System } from '../../system.ts'
import { AUTHORIZATION_FORM } from '../measure.ts'

/** The amount in `AUTHORIZATION_FORM`. */
const AMOUNT_MINOR = 1000

export type Chain = {
  capture(connections: number, seconds: number): Promise<Load>
  stop(): Promise<void>
}

/** Creates the chain's tables if they are missing. Returns a connection to their database. */
export async function openChainTables({ floor_url }: System): Promise<postgres.Sql> {
  const sql = postgres(floor_url, { max: 1, onnotice: () => {} })
  await sql.unsafe(`
    create table if not exists floor_payments (id uuid primary key, status text not null, reference text, amount bigint not null);
    create table if not exists floor_payouts (id uuid primary key, status text not null, reference text, amount bigint not null,
      created_at timestamptz not null, paid_at timestamptz);
    create table if not exists floor_jobs (id uuid primary key, resource_id uuid not null, state text not null);
    create table if not exists floor_events (id uuid primary key, subject_id uuid not null, type text not null, created_at timestamptz not null default now());
    create table if not exists floor_notifications (id text primary key, kind text not null, payload jsonb not null, state text not null,
      received_at timestamptz not null default now(), applied_at timestamptz)`)
  return sql
}

/** `env`: `STUB=1` replaces the provider by a function in the worker. */
export async function openChain(system: System, env: Record<string, string>): Promise<Chain> {
  const sql = await openChainTables(system)
  const queue = `floor-${randomUUIDv7()}`
  const redis = { REDIS_URL: system.redis_url, QUEUE_NAME: queue }
  const worker = await system.startFloor('chain-worker', { ...redis, ...env })
  const api = await system.startFloor('chain-api', redis)
  const url = String(api.report['url'])
  const ready: string[] = []

  async function prepare(count: number): Promise<void> {
    const missing = count - ready.length
    if (missing <= 0) return
    const references =
      env['STUB'] === '1' ? Array.from({ length: missing }, () => 'pi_none') : await authorize(missing)
    const rows = references.map((reference) => ({
      id: randomUUIDv7(),
      status: 'authorized',
      reference,
      amount: AMOUNT_MINOR,
    }))
    for (let from = 0; from < rows.length; from += 5000)
      await sql`insert into floor_payments ${sql(rows.slice(from, from + 5000))}`
    ready.push(...rows.map(({ id }) => id))
  }

  async function authorize(count: number): Promise<string[]> {
    const references: string[] = []
    const { url: provider_url, api_key } = system.provider('stripe')
    const headers = {
      authorization: `Bearer ${api_key}`,
      'content-type': 'application/x-www-form-urlencoded',
    }
    const bytes = request('POST', '/v1/payment_intents', headers, AUTHORIZATION_FORM)
    let remaining = count
    await closedLoop({
      url: provider_url,
      connections: 32,
      seconds: 600,
      expect: 200,
      next: () => (remaining-- > 0 ? bytes : undefined),
      onBody: (body) => references.push(/"id": ?"(pi_[^"]+)"/.exec(body)![1]!),
    })
    return references
  }

  return {
    async capture(connections, seconds) {
      await prepare((connections === 1 ? 800 : 3500) * seconds)
      const next = () => {
        const id = ready.pop()
        return id && request('POST', `/payments/${id}/capture`)
      }
      return await closedLoop({ url, connections, seconds, expect: 200, next })
    },
    async stop() {
      await api.stop()
      await worker.stop()
      await sql.end()
    },
  }
}

// The chain floor with notifications: an API, a webhooks host and a worker that do the product's work without any
// protection.
import { randomUUIDv7 } from 'node:crypto'
import type postgres from 'postgres'
import { freePort } from '#start/ports.ts'
import { HOST } from '#test/environment.ts'
import { providerVariables } from '#test/providers.ts'
import { request } from '../../load.ts'
import type { System } from '../../system.ts'
import { openChainTables } from '../captures/chain.ts'
import { idIn, paymentBody } from '../captures/requests.ts'
import type { Target } from './live.ts'

export async function openLifeFloor(
  system: System,
): Promise<{ target: Target; sql: postgres.Sql; [Symbol.asyncDispose](): Promise<void> }> {
  await using cleanup = new AsyncDisposableStack()
  const sql = await openChainTables(system)
  cleanup.defer(() => sql.end())
  const name = `floor-${randomUUIDv7()}`
  const queue = { REDIS_URL: system.redis_url, QUEUE_NAME: name }
  // The host calls the provider, and the provider notifies the host. So the host's port is chosen first.
  const PORT = String(await freePort(HOST))
  const providers = await system.startNotifyingProviders(cleanup, `http://${HOST}:${PORT}`)
  const env = { ...queue, ...providerVariables((each) => providers.get(each)!.addresses) }
  cleanup.use(await system.startFloor('chain-webhooks', { ...env, PORT }))
  cleanup.use(await system.startFloor('chain-worker', env))
  const api = cleanup.use(await system.startFloor('chain-api', env))
  const headers = { 'content-type': 'application/json' }
  const target: Target = {
    url: String(api.report['url']),
    provider: providers.get('stripe')!,
    authorize: () => request('POST', '/payments', headers, paymentBody()),
    capture: (answer) => request('POST', `/payments/${idIn(answer)}/capture`),
    // Notifications are applied before they are answered.
    isBusy: () => Promise.resolve(false),
    async count(since) {
      const [row] = await sql<{ notifications: number; final: number }[]>`
        select count(*)::integer as notifications, count(*) filter (where state in ('applied', 'ignored'))::integer as final
        from floor_notifications where received_at >= ${since}`
      return row!
    },
  }
  const disposables = cleanup.move()
  return { target, sql, [Symbol.asyncDispose]: () => disposables.disposeAsync() }
}

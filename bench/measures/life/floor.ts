// The chain floor, in which payments live: an API, a webhooks host and a worker that do the same without any protection.
import { randomUUIDv7 } from 'node:crypto'
import { providerVariables } from '#test/providers.ts'
import { request } from '../../load.ts'
import type { System } from '../../system.ts'
import { openChainTables } from '../captures/chain.ts'
import { idIn, paymentBody } from '../captures/requests.ts'
import type { Target } from './live.ts'

export async function openLifeFloor(
  system: System,
): Promise<{ target: Target; [Symbol.asyncDispose](): Promise<void> }> {
  await using ends = new AsyncDisposableStack()
  const sql = await openChainTables(system)
  ends.defer(() => sql.end())
  const name = `floor-${randomUUIDv7()}`
  const queue = { REDIS_URL: system.redis_url, QUEUE_NAME: name }
  const webhooks = ends.use(await system.startFloor('chain-webhooks'))
  const providers = await system.startNotifying(ends, String(webhooks.told['url']))
  const env = { ...queue, ...providerVariables((each) => providers.get(each)!.url) }
  ends.use(await system.startFloor('chain-worker', env))
  const api = ends.use(await system.startFloor('chain-api', env))
  const headers = { 'content-type': 'application/json' }
  const target: Target = {
    url: String(api.told['url']),
    provider: providers.get('stripe')!,
    authorize: () => request('POST', '/payments', headers, paymentBody()),
    capture: (answer) => request('POST', `/payments/${idIn(answer)}/capture`),
    // What it was told is applied before it answers.
    isBusy: () => Promise.resolve(false),
    async count(since) {
      const [row] = await sql<{ told: number; over: number }[]>`
        select count(*)::integer as told, count(*) filter (where state in ('applied', 'ignored'))::integer as over
        from floor_notifications where received_at >= ${since}`
      return row!
    },
  }
  const kept = ends.move()
  return { target, [Symbol.asyncDispose]: () => kept.disposeAsync() }
}

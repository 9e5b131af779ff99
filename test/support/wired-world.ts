// A world whose worker reaches Stripe through a proxy. The providers send no notifications.
import { createLog } from '#core/log.ts'
import { startHere } from './parts.ts'
import { startProxy, type Proxy } from './proxy.ts'
import { createWorld, type World } from './world.ts'

export type WiredWorld = World & { wire: Proxy }

export async function createWiredWorld(): Promise<WiredWorld> {
  await using ends = new AsyncDisposableStack()
  const world = await createWorld({ notifications: false, parts: ['api', 'webhooks'] })
  ends.defer(() => world.close())
  const wire = await startProxy(world.provider('stripe').url)
  ends.defer(() => wire.close())
  const worker = await startHere(
    'worker',
    { ...world.env, STRIPE_API_BASE: wire.url },
    createLog('silent', 'test'),
  )
  ends.defer(() => worker.close())
  const kept = ends.move()
  return { ...world, wire, close: () => kept.disposeAsync() }
}

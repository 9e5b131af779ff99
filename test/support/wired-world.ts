// A world whose worker reaches Stripe through a proxy. The providers send no notifications.
import { createLog } from '#core/log.ts'
import { startInThisProcess } from './parts.ts'
import { startProxy, type Proxy } from './proxy.ts'
import { createWorld, type World } from './world.ts'

export type WiredWorld = World & { wire: Proxy }

export async function createWiredWorld(): Promise<WiredWorld> {
  await using cleanup = new AsyncDisposableStack()
  const world = await createWorld({ notifications: false, parts: ['api', 'webhooks'] })
  cleanup.defer(() => world.close())
  const wire = await startProxy(world.provider('stripe').url)
  cleanup.defer(() => wire.close())
  const worker = await startInThisProcess(
    'worker',
    { ...world.env, STRIPE_API_BASE: wire.url },
    createLog('silent', 'test'),
  )
  cleanup.defer(() => worker.close())
  const disposables = cleanup.move()
  return { ...world, wire, close: () => disposables.disposeAsync() }
}

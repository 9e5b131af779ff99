// Hosts of sandboxes in a test, and calls to the processor of a sandbox.
import { onTestFinished } from 'vitest'
import { createLog } from '#core/log.ts'
import type { EngineResponse } from '#providers/sandbox/stripe/responses.ts'
import { performRequest } from '#providers/sandbox/stripe/requests.ts'
import { openSandboxHost, type SandboxHost } from '#workers/sandbox/host.ts'
import type { SandboxCallLimits } from '#workers/sandbox/call.ts'
import { freshKey } from './client.ts'
import type { World } from './world.ts'

const log = createLog('silent', 'test')

/** A new tenant in test mode. */
export async function newTenant(world: World): Promise<string> {
  return (await world.clientOf({ mode: 'test' })).tenant_id
}

/** A host as a worker has it. */
export function openHost({ config }: World, limits?: { max_bytes: number }): SandboxHost {
  const host = openSandboxHost(config, log, limits)
  onTestFinished(() => host.close())
  return host
}

type Answer = Omit<EngineResponse, 'body'> & { body: any }

/** A request to the processor of a sandbox. */
export async function call(
  host: SandboxHost,
  tenant_id: string,
  method: string,
  path: string,
  { params = {}, key, ...limits }: { params?: Record<string, string>; key?: string } & SandboxCallLimits = {},
): Promise<Answer> {
  const [pathname, query = ''] = path.split('?')
  const request = {
    method,
    path: pathname!,
    query,
    body: new URLSearchParams(params).toString(),
    headers: {
      authorization: 'Bearer sk_test_any',
      'content-type': 'application/x-www-form-urlencoded',
      ...(key !== undefined && { 'idempotency-key': key }),
    },
  }
  const response = await host.perform(tenant_id, (engine) => performRequest(engine, request), limits)
  return { ...response, body: JSON.parse(response.body) }
}

const CARD = {
  amount: '500',
  currency: 'usd',
  payment_method: 'pm_card_visa',
  confirm: 'true',
  'automatic_payment_methods[enabled]': 'true',
  'automatic_payment_methods[allow_redirects]': 'never',
}
/** Creates and captures a payment. */
export const pay = (host: SandboxHost, tenant_id: string, key = freshKey()) =>
  call(host, tenant_id, 'POST', '/v1/payment_intents', { params: CARD, key })
/** Creates a payment that can be captured. */
export const hold = (host: SandboxHost, tenant_id: string, limits: SandboxCallLimits = {}) =>
  call(host, tenant_id, 'POST', '/v1/payment_intents', {
    params: { ...CARD, capture_method: 'manual' },
    key: freshKey(),
    ...limits,
  })
/** The ids of the newest payments. */
export const idsAt = async (host: SandboxHost, tenant_id: string) =>
  (await call(host, tenant_id, 'GET', '/v1/payment_intents?limit=100')).body.data.map(
    ({ id }: { id: string }) => id,
  ) as string[]

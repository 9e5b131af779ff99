// Tenants of the system under torture, and another application of the same account at the processor.
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Sql } from '#core/db.ts'
import type { Client } from '#test/client.ts'
import { createKey } from '#test/environment.ts'
import { until } from '#test/process.ts'
import type { Provider } from '#test/providers.ts'
import { ALL_EVENTS_ENDPOINTS, registerEndpoints, TENANTS_PER_SUBSCRIBER } from './events/endpoints.ts'
import { followFeed, type Follower } from './events/follower.ts'
import type { Receivers } from './events/receivers.ts'

export type ProcessorCall = (path: string, params: Record<string, string>) => Promise<{ id: string }>

/** Creates tenants. `clientsOf` returns clients with this key, one for each API. */
export function createTenants(sql: Sql, receivers: Receivers, clientsOf: (key: string) => Client[]) {
  const followers: Follower[] = []
  let tenants = 0
  async function subscribe(clients: Client[], tenant_id: string, specs: typeof ALL_EVENTS_ENDPOINTS) {
    await registerEndpoints(receivers, clients, tenant_id, specs)
    followers.push(followFeed(clients, tenant_id))
    return clients
  }
  return {
    followers,
    /** Registers the endpoints of a tenant, and follows its feed. */
    subscribe,
    async newTenant(): Promise<Client[]> {
      const nth = tenants++
      const name = `tenant-${nth}`
      // The database may be down.
      const key = await until('the tenant is created', () => createKey(sql, name).catch(() => undefined))
      const of_tenant = clientsOf(key.secret)
      return nth % TENANTS_PER_SUBSCRIBER === 0
        ? await subscribe(of_tenant, key.tenant_id, ALL_EVENTS_ENDPOINTS)
        : of_tenant
    },
  }
}

/** `withoutNewTenants` runs its work while no tenant is created; `newTenant` waits for its end. */
export function createTenantGate(newTenant: () => Promise<Client[]>) {
  const state = { is_open: true, in_creation: 0 }
  return {
    async newTenant(): Promise<Client[]> {
      while (!state.is_open) await sleep(50)
      state.in_creation++
      return await newTenant().finally(() => state.in_creation--)
    },
    async withoutNewTenants(work: () => Promise<void>): Promise<void> {
      state.is_open = false
      try {
        await until('all tenants are created', () => state.in_creation === 0)
        await work()
      } finally {
        state.is_open = true
      }
    },
  }
}

/** Calls the processor's API with our credentials. Injected faults also hit these calls, which are retried. */
export function createOtherApplication({ url, api_key }: Provider): ProcessorCall {
  return async (path, params) => {
    let key = randomUUID()
    return await until(`POST ${path} is answered`, async () => {
      const response = await fetch(`${url}${path}`, {
        method: 'POST',
        headers: { authorization: `Bearer ${api_key}`, 'idempotency-key': key },
        body: new URLSearchParams(params),
      }).catch(() => undefined)
      // A call may have an effect although its answer is lost, so it is repeated with the same key. An error would be
      // replayed under that key, so the key changes after an error.
      if (response?.ok === false) key = randomUUID()
      return (
        response?.ok === true && (await (response.json() as Promise<{ id: string }>).catch(() => undefined))
      )
    })
  }
}

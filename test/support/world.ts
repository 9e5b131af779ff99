// A complete Sluice for one test file: its own database, Redis and providers, and the parts in this process. A file
// takes its tests from `testIn`, or creates its worlds with `createWorld`.
import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { test as anyTest } from 'vitest'
import { loadConfig, type Config } from '#core/config.ts'
import type { Sql } from '#core/db.ts'
import { createLog } from '#core/log.ts'
import type { Scope } from '#domain/areas.ts'
import { createClient, type Client } from './client.ts'
import { createEnvironment, createKey } from './environment.ts'
import { hasOpenWork } from './open-work.ts'
import { startHere, type PartName } from './parts.ts'
import { pauses } from './process.ts'
import type { EmulatorChanges, Provider, ProviderName } from './providers.ts'

export type World = {
  /** The environment of an additional process, as the owner of the tables, as are `config` and `sql`. */
  env: Record<string, string>
  config: Config
  sql: Sql
  /** A client of the world's first tenant with all scopes. */
  client: Client
  tenant_id: string
  /** A client of another tenant, or of the same one with other scopes. */
  clientOf(options?: {
    tenant?: string
    scopes?: Scope[]
  }): Promise<Client & { tenant_id: string; key_id: string }>
  provider: (name: ProviderName) => Provider
  /** The URL of the dashboard; empty if it does not run. */
  dashboard_url: string
  /** Resolves when no job is open except parked ones. */
  drain(): Promise<void>
  close(): Promise<void>
}

export type WorldOptions = {
  queue?: 'redis' | 'postgres'
  env?: Record<string, string>
  /**
   * The parts in this process. Default: all but the dashboard. Each connects to the database as the user of its role.
   */
  parts?: PartName[]
  /** Whether the providers send notifications. */
  notifications?: boolean
  /** Overrides options of the emulators. */
  providers?: EmulatorChanges
}

/**
 * The `test` of a file whose tests share a world. `world`, and `client` of its first tenant, start with the first test
 * that uses them.
 */
export function testIn(options?: WorldOptions) {
  return (
    anyTest
      // Vitest takes fixtures from a pattern, also where there are none to take.
      // oxlint-disable-next-line no-empty-pattern
      .extend('world', { scope: 'file' }, async ({}, { onCleanup }) => {
        const world = await createWorld(options)
        onCleanup(() => world.close())
        return world
      })
      .extend('client', { scope: 'file' }, ({ world }) => world.client)
  )
}

export async function createWorld({
  queue = 'redis',
  env: extra_env = {},
  parts = ['api', 'webhooks', 'worker'],
  notifications = true,
  providers,
}: WorldOptions = {}): Promise<World> {
  await using cleanup = new AsyncDisposableStack()
  const environment = cleanup.use(
    await createEnvironment({
      queue,
      notifications,
      changes: providers,
      env: {
        LOG_LEVEL: process.env.TEST_LOG_LEVEL ?? 'silent',
        // Recurring reconciliation would disturb tests. A test that needs it sets the variable.
        RECONCILE_EVERY_S: '3600',
        ...extra_env,
      },
    }),
  )
  const { env, sql, provider } = environment
  const log = createLog(env['LOG_LEVEL']!, 'test')
  const startPart = async (name: PartName) => {
    if (!parts.includes(name)) return ''
    const part = await startHere(name, env, log)
    cleanup.defer(() => part.close())
    return part.url ?? ''
  }
  const webhooks_url = await startPart('webhooks')
  if (webhooks_url !== '') env['WEBHOOKS_URL'] = webhooks_url
  await startPart('worker')
  const api_url = await startPart('api')
  env['API_URL'] = api_url
  const dashboard_url = await startPart('dashboard')

  const clientOf: World['clientOf'] = async ({
    tenant = `t-${randomBytes(4).toString('hex')}`,
    scopes,
  } = {}) => {
    const { secret, ...ids } = await createKey(sql, tenant, scopes)
    return { ...createClient(api_url, secret), ...ids }
  }
  const first = await clientOf({ tenant: 'acme' })
  const disposables = cleanup.move()
  return {
    env,
    config: loadConfig(env),
    sql,
    client: first,
    tenant_id: first.tenant_id,
    clientOf,
    provider,
    dashboard_url,
    async drain() {
      for (const pause_ms of pauses()) {
        if (!(await hasOpenWork(sql, 60))) return
        await sleep(pause_ms)
      }
    },
    close: () => disposables.disposeAsync(),
  }
}

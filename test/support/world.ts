// A world is a complete Sluice for one test file, with its own database, Redis and providers. Its parts run in this
// process. A file gets its tests from `testIn`, groups of tests with different worlds from `describeIn`, and a world
// for a single test from `createWorld`.
import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, test as anyTest } from 'vitest'
import { loadConfig, type Config } from '#core/config.ts'
import type { Sql } from '#core/db.ts'
import { createLog } from '#core/log.ts'
import type { Scope } from '#domain/areas.ts'
import type { Mode } from '#domain/modes.ts'
import { createClient, type Client } from './client.ts'
import { createEnvironment, createKey } from './environment.ts'
import { hasOpenWork } from './open-work.ts'
import { startInThisProcess, type PartName } from './parts.ts'
import { pauses } from './process.ts'
import type { EmulatorChanges, Provider, ProviderName } from './providers.ts'

export type World = {
  /**
   * The environment of an additional process. `env`, `config` and `sql` have the owner of the tables as the database
   * user.
   */
  env: Record<string, string>
  config: Config
  sql: Sql
  /** A client of the world's first tenant with all scopes. */
  client: Client
  tenant_id: string
  /** A client of another tenant, of the same tenant with other scopes, or of a twin in test mode. */
  clientOf(options?: {
    tenant?: string
    scopes?: Scope[]
    mode?: Mode
  }): Promise<Client & { tenant_id: string; key_id: string }>
  provider: (name: ProviderName) => Provider
  /** The URL of the dashboard; empty if it does not run. */
  dashboard_url: string
  /** Resolves when no jobs are open except parked jobs. */
  drain(): Promise<void>
  close(): Promise<void>
}

export type WorldOptions = {
  queue?: 'redis' | 'postgres'
  env?: Record<string, string>
  /**
   * The parts that run in this process. Default: all except the dashboard. Each part connects to the database with the
   * user of its role.
   */
  parts?: PartName[]
  /** Whether the providers send notifications. */
  notifications?: boolean
  /** Overrides options of the provider emulators. */
  providers?: EmulatorChanges
}

/**
 * The `test` of a file whose tests share a world. The world is created with `options`, or by the function `create`,
 * for the first test that uses the world or the `client` of its first tenant.
 */
export function testIn(options?: WorldOptions): WorldTest
export function testIn<W extends World>(create: () => Promise<W>): WorldTest<W>
export function testIn(world: WorldOptions | (() => Promise<World>) = {}): WorldTest {
  return testInCreated(typeof world === 'function' ? world : () => createWorld(world))
}

/** A `describe` with a world of its own, which closes after its last test. */
export function describeIn(
  title: string,
  { concurrent, ...options }: WorldOptions & { concurrent?: boolean },
  tests: (test: WorldTest) => void,
): void {
  const test = testIn(options)
  // The title is a parameter of this function, not a literal.
  // oxlint-disable-next-line valid-title
  describe(title, { concurrent }, () => {
    test.afterAll(({ world }) => world.close())
    tests(test)
  })
}

type WorldTest<W extends World = World> = ReturnType<typeof testInCreated<W>>

function testInCreated<W extends World>(create: () => Promise<W>) {
  return (
    anyTest
      // Vitest requires a destructuring pattern as the first parameter, even if the pattern is empty.
      // oxlint-disable-next-line no-empty-pattern
      .extend('world', { scope: 'file' }, async ({}, { onCleanup }) => {
        const world = await create()
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
        // Recurring reconciliation would disturb tests. A test that needs reconciliation sets the variable.
        RECONCILE_EVERY_S: '3600',
        // After a switch of the database, the lists of the processor are read at once.
        RECONCILE_AFTER_S: '1',
        // PostgreSQL plans each statement again in each connection.
        DATABASE_POOL: '5',
        ...extra_env,
      },
    }),
  )
  const { env, sql, provider } = environment
  const log = createLog(env['LOG_LEVEL']!, 'test')
  const startPart = async (name: PartName) => {
    if (!parts.includes(name)) return ''
    const part = await startInThisProcess(name, env, log)
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
    mode,
  } = {}) => {
    const { secret, ...ids } = await createKey(sql, tenant, scopes, mode)
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

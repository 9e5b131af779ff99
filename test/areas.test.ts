// Tests the areas of the API that are unimplemented, switched off or misconfigured.
import { readFile } from 'node:fs/promises'
import { expect, onTestFinished } from 'vitest'
import { CHANNELS } from '#core/addresses.ts'
import type { Config } from '#core/config.ts'
import { requiredVariables } from '#core/config/readers.ts'
import { newId } from '#core/ids.ts'
import { serveOperations } from '#core/service.ts'
import { listenAddresses } from '#core/startup.ts'
import { createLog } from '#core/log.ts'
import { startApi } from '#api/main.ts'
import {
  AREAS,
  AREA_NAMES,
  areaStates,
  CHANNEL_CREDENTIALS,
  type Area,
  type AreaStates,
} from '#domain/areas.ts'
import { createClient, type Client } from '#test/client.ts'
import { readDocument, routesOf, type DocumentedRoute } from '#test/documentation.ts'
import { testIn } from '#test/world.ts'

const test = testIn({ parts: ['api'] })

test('a path that only resembles a path of an area gets route_not_found, and a key without the scope gets missing_scope', async ({
  world,
}) => {
  for (const path of ['/v1/payoutsx', '/v1/message', '/v1/customers/a/b/c', '/v1/unheard-of'])
    expect((await world.client.get(path)).body.error.code).toBe('route_not_found')
  const client_without_scope = await world.clientOf({ scopes: ['customer:write'] })
  expect((await client_without_scope.post('/v1/messages/email', {})).body.error).toMatchObject({
    code: 'missing_scope',
    message: 'Missing scope: messaging:write',
  })
})

test('all ten areas can be switched off, and the guide to operations names each of them', async () => {
  expect(areaStates(AREA_NAMES)).toEqual({
    deployed: [],
    switched_off: AREA_NAMES,
    not_deployed: [],
    without_credentials: [],
    channels_without_credentials: [],
  })
  expect(AREA_NAMES).toHaveLength(10)
  const guide = await readFile(new URL('../docs/guides/operations.md', import.meta.url), 'utf8')
  const [, all, deployed] = /## Areas\n([^]*?)This version has ([^;]*);/.exec(guide)!
  const namesIn = (text: string) => Array.from(text.matchAll(/`(\w+)`/g), ([, name]) => name)
  expect([namesIn(all!), namesIn(deployed!)]).toEqual([AREA_NAMES, areaStates([]).deployed])
})

type Cause = { area: Area; as: keyof AreaStates; changes: Partial<Config> }

/** Each area with each cause for which its routes refuse all requests. */
const CAUSES: Cause[] = AREA_NAMES.flatMap((area): Cause[] => {
  const { tags, credentials = [] }: (typeof AREAS)[Area] = AREAS[area]
  return [
    { area, as: 'switched_off', changes: { DISABLED_AREAS: [area] } },
    ...(tags === undefined ? [{ area, as: 'not_deployed' as const, changes: {} }] : []),
    ...credentials.map((variable) => ({
      area,
      as: 'without_credentials' as const,
      changes: { NODE_ENV: 'production' as const, [variable]: undefined },
    })),
  ]
})

/** The area in whose section the OpenAPI document lists the operation. */
function areaOf({ operation }: DocumentedRoute): Area | undefined {
  const [tag] = operation.tags as string[]
  return AREA_NAMES.find((area) => Object.hasOwn(AREAS[area].tags ?? {}, tag!))
}

test('the OpenAPI document lists every operation in the section of its area; only the lookup of idempotency keys and the test clock have no area', async ({
  world,
}) => {
  const operations = routesOf(await readDocument(world.client))
  const misplaced = operations.filter((route) => {
    const [area_by_path] = AREA_NAMES.filter((area) =>
      AREAS[area].paths.some((path) => `${route.path}/`.startsWith(`${path}/`)),
    )
    return area_by_path !== undefined && area_by_path !== areaOf(route)
  })
  expect(misplaced).toEqual([])
  const without_area = operations.filter((route) => areaOf(route) === undefined).map(({ path }) => path)
  expect(without_area).toEqual(['/v1/idempotency_keys/{key}', '/v1/test_clock', '/v1/test_clock'])
  const areas = new Set(operations.map(areaOf))
  expect(AREA_NAMES.filter((area) => areas.has(area))).toEqual(areaStates([]).deployed)
})

test.for(CAUSES)(
  '$area, $as: each route of the area responds misconfigured_gateway, and the log, /readyz and a metric report the area',
  async (cause, { world }) => {
    const { area, as, changes } = cause
    const lines: string[] = []
    const log = createLog('info', 'test')
    const write = (fields: object, text: string) => void lines.push(JSON.stringify({ ...fields, text }))
    Object.assign(log, { info: write, warn: write })
    const api = await startApi({ ...world.config, ...changes }, log)
    const operations = await serveOperations({ ...listenAddresses(world.config).metrics, port: 0 }, api.ready)
    try {
      const client = createClient(api.url, world.client.key)
      const unauthenticated = createClient(api.url, '')
      const documented = routesOf(await readDocument(world.client))
      const { paths, planned_posts = {} }: (typeof AREAS)[Area] = AREAS[area]
      const own_routes = [
        ...documented.filter((route) => areaOf(route) === area),
        ...(as === 'not_deployed' ? paths.map((path) => ({ method: 'GET', path })) : []),
        ...Object.keys(planned_posts).map((path) => ({ method: 'POST', path })),
      ]
      const other_routes = documented.filter((route) => route.method === 'GET' && areaOf(route) !== area)
      const codeOf = async (each: Client, { method, path }: { method: string; path: string }) => {
        const { status, body } = await each.send(method, path.replace(/\{\w+\}/, newId()))
        return [method, path, status, body?.error?.code, body?.error?.context?.area]
      }
      const responses = await Promise.all(own_routes.map((route) => codeOf(client, route)))
      expect(responses).toEqual(
        own_routes.map(({ method, path }) => [method, path, 500, 'misconfigured_gateway', area]),
      )
      expect(await codeOf(unauthenticated, { method: 'GET', path: paths[0] })).toContain('unauthorized')
      for (const response of await Promise.all(other_routes.map((route) => codeOf(client, route))))
        expect(response).not.toContain(500)

      const ready = await fetch(`${operations.url}/readyz`)
      const { status, areas } = (await ready.json()) as { status: string; areas: AreaStates }
      expect([ready.status, status]).toEqual([200, 'ready'])
      expect(areas[as]).toContain(area)
      expect(areas.deployed).toEqual(areaStates([]).deployed.filter((each) => each !== area))
      expect(lines.join('\n')).toContain(JSON.stringify({ areas }).slice(1, -1))
      const metrics = await (await fetch(`${operations.url}/metrics`)).text()
      for (const each of AREA_NAMES)
        expect(metrics).toContain(
          `sluice_area_deployed{area="${each}"} ${areas.deployed.includes(each) ? 1 : 0}\n`,
        )
    } finally {
      await operations.close()
      await api.close()
    }
  },
)

test.for(
  CHANNELS.flatMap((channel) => CHANNEL_CREDENTIALS[channel].map((missing) => ({ channel, missing }))),
)(
  'without $missing the channel $channel sends no messages, the log and /readyz report this, and messages remain readable',
  async ({ channel, missing }, { world }) => {
    const lines: object[] = []
    const log = createLog('silent', 'test')
    Object.assign(log, { warn: (fields: object) => void lines.push(fields) })
    const api = await startApi({ ...world.config, [missing]: undefined }, log)
    onTestFinished(() => api.close())
    const client = createClient(api.url, world.client.key)
    for (const each of CHANNELS)
      for (const path of [`/v1/messages/${each}`, `/v1/messages/${each}/batch`]) {
        const { status, body } = await client.post(path, {})
        const expected =
          each === channel
            ? [500, 'misconfigured_gateway', { area: 'messages', channel }]
            : [400, 'invalid_request', undefined]
        expect([path, status, body.error.code, body.error.context]).toEqual([path, ...expected])
        expect((await createClient(api.url, '').post(path, {})).status).toBe(401)
      }
    expect((await client.get('/v1/messages')).status).toBe(200)
    expect(await api.ready()).toMatchObject({ areas: { channels_without_credentials: [channel] } })
    expect(lines).toEqual([{ channel, missing: [missing] }])
  },
)

test('a worker requires the credentials of each provider, except where the API reports that credentials are missing', () => {
  const required = requiredVariables('worker')
  for (const area of AREA_NAMES) {
    const { provider, credentials }: (typeof AREAS)[Area] = AREAS[area]
    if (provider === undefined || credentials !== undefined) continue
    expect([area, required]).toEqual([
      area,
      expect.arrayContaining([expect.stringMatching(`^${provider.toUpperCase()}_\\w*KEY$`)]),
    ])
  }
})

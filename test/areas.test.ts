// Areas of the API: those that are still to come say so, and every area can be switched off.
import { readFile } from 'node:fs/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { serveOperations } from '#core/service.ts'
import { listenAddresses } from '#core/startup.ts'
import { createLog } from '#core/log.ts'
import { startApi } from '#api/main.ts'
import { AREA_NAMES, areaStates } from '#domain/areas.ts'
import { createClient } from '#test/client.ts'
import { createWorld, type World } from '#test/world.ts'

let world: World
beforeAll(async () => {
  world = await createWorld({ parts: ['api'] })
})
afterAll(async () => await world?.close())

test.for([
  ['POST', '/v1/messages/email', 'messages'],
  ['POST', '/v1/messages/sms', 'messages'],
  ['GET', '/v1/events', 'events'],
  ['GET', '/v1/webhook_endpoints', 'events'],
])('%s %s answers 500 misconfigured_gateway to a caller with a valid key', async ([method, path, area]) => {
  const refused = await world.client.send(method!, path!)
  expect(refused).toMatchObject({
    status: 500,
    body: { error: { code: 'misconfigured_gateway', context: { area } } },
  })
  expect((await createClient(world.client.url, '').send(method!, path!)).status).toBe(401)
})

test('a path near that of an area is 404, and a message sent without the scope is refused as missing_scope', async () => {
  for (const path of ['/v1/payoutsx', '/v1/message', '/v1/customers/a/b/c', '/v1/unheard-of'])
    expect((await world.client.get(path)).body.error.code).toBe('route_not_found')
  const weak = await world.clientOf({ scopes: ['customer:write'] })
  expect((await weak.post('/v1/messages/email', {})).body.error).toMatchObject({
    code: 'missing_scope',
    message: 'Missing scope: messaging:write',
  })
})

test('all ten areas can be switched off; the log, /readyz and a metric tell which are', async () => {
  const off = areaStates(AREA_NAMES)
  expect(off).toEqual({
    deployed: [],
    switched_off: AREA_NAMES,
    not_deployed: [],
    without_credentials: [],
  })
  expect(AREA_NAMES).toHaveLength(10)
  const guide = await readFile(new URL('../docs/guides/operations.md', import.meta.url), 'utf8')
  const [, all, here] = /## Areas\n([^]*?)This version has ([^;]*);/.exec(guide)!
  const named = (text: string) => Array.from(text.matchAll(/`(\w+)`/g), ([, name]) => name)
  expect([named(all!), named(here!)]).toEqual([AREA_NAMES, areaStates([]).deployed])

  const lines: string[] = []
  const log = createLog('info', 'test')
  log.info = (fields: object) => lines.push(JSON.stringify(fields))
  const api = await startApi({ ...world.config, DISABLED_AREAS: ['customers', 'ai'] }, log)
  const operations = await serveOperations({ ...listenAddresses(world.config).metrics, port: 0 }, api.ready)
  try {
    const client = createClient(api.url, world.client.key)
    expect((await client.get('/v1/customers')).status).toBe(500)
    expect((await client.get('/v1/payments')).status).toBe(200)
    const ready = await fetch(`${operations.url}/readyz`)
    expect([ready.status, await ready.json()]).toMatchObject([
      200,
      {
        status: 'ready',
        areas: { deployed: areaStates(['customers', 'ai']).deployed, switched_off: ['customers', 'ai'] },
      },
    ])
    expect(lines.join('\n')).toContain('"switched_off":["customers","ai"]')
    const metrics = await (await fetch(`${operations.url}/metrics`)).text()
    expect(metrics).toContain('sluice_area_deployed{area="customers"} 0')
    expect(metrics).toContain('sluice_area_deployed{area="payments"} 1')
  } finally {
    await operations.close()
    await api.close()
  }
})

// Deliveries: what an endpoint receives, when it is tried again, and what becomes of those that fail.
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { createVault } from '#core/secrets.ts'
import { newWebhookSecret } from '#core/standard-webhooks.ts'
import { pauseJobs, resumeJobs } from '#domain/jobs/pauses.ts'
import { auditEverything } from '#test/books.ts'
import type { Client } from '#test/client.ts'
import {
  anEvent,
  deliveriesOf,
  hurryLines,
  hurryUntil,
  LOOPBACK,
  makeEndpoint,
  openHook,
  verifyBoth,
  type Hook,
} from '#test/deliveries.ts'
import { createWorld, type World } from '#test/world.ts'

let world: World
beforeAll(async () => {
  world = await createWorld({ env: LOOPBACK })
})
afterAll(async () => await world?.close())
// Of one tenant each: what one test leaves behind is no other's.
let client: Client & { tenant_id: string; key_id: string }
afterEach(async () => {
  const { problems } = await auditEverything(world.sql)
  expect(problems).toEqual([])
})

async function hookAndEndpoint(reply?: Parameters<typeof openHook>[0], fields: object = {}) {
  client = await world.clientOf()
  const hook = await openHook(reply)
  onTestFinished(() => hook.close())
  return { hook, endpoint: await makeEndpoint(client, { url: hook.url, ...fields }) }
}

async function untilArrived(hook: Hook, count: number): Promise<void> {
  while (hook.arrived.length < count) await sleep(10)
}

const endpointNow = async (id: string) => (await client.get(`/v1/webhook_endpoints/${id}`)).body
const sequencesOf = (hook: Hook) => hook.arrived.map(({ body }) => body.sequence)

// The clock of a tenant in test mode: moves it, and waits until everything has run.
import { randomBytes } from 'node:crypto'
import { expect } from 'vitest'
import type { TestClock } from '#domain/test-clocks/test-clock.ts'
import type { Client } from './client.ts'
import { eventually } from './payments.ts'
import type { World } from './world.ts'

export const DAY_MS = 86_400_000

type TestTenant = Client & { tenant_id: string }

/** A tenant in test mode without records. */
export async function testTenant(world: World): Promise<TestTenant> {
  return await world.clientOf({ tenant: `clock-${randomBytes(4).toString('hex')}`, mode: 'test' })
}

export async function clockOf(client: Client): Promise<TestClock> {
  const { status, body } = await client.get('/v1/test_clock')
  expect(status).toBe(200)
  return body
}

/** A time of the clock, this many days after its present time. */
export async function inDays(client: Client, days: number): Promise<string> {
  return new Date(Date.parse((await clockOf(client)).now) + days * DAY_MS).toISOString()
}

export async function untilReady(client: Client): Promise<TestClock> {
  return await eventually(async () => {
    const clock = await clockOf(client)
    expect(clock).toMatchObject({ status: 'ready', advance_to: null, remaining: 0 })
    return clock
  })
}

/** Moves the clock by this many days, and waits until everything has run. */
export async function passDays(client: Client, days: number): Promise<TestClock> {
  const advance_to = await inDays(client, days)
  const { status, body, headers } = await client.post('/v1/test_clock', { advance_to })
  expect([status, body, headers.get('location')]).toMatchObject([
    202,
    { status: 'advancing', livemode: false },
    '/v1/test_clock',
  ])
  expect(Date.parse(body.advance_to)).toBe(Date.parse(advance_to))
  return await untilReady(client)
}

/** The types of the events of these resources, in the order of the feed. */
export async function eventTypes(client: Client, ids: string[]): Promise<[type: string, nth: number][]> {
  const { body } = await client.get('/v1/events?after=0&limit=100')
  return body.flatMap(({ type, data }: { type: string; data: { id: string } }) =>
    ids.includes(data.id) ? [[type, ids.indexOf(data.id)]] : [],
  )
}

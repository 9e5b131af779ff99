// Taking in the provider's webhooks: verified, stored, rung, answered, against one INSERT.
import { createHmac } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { freshKey } from '#test/client.ts'
import { alternate } from '../compare.ts'
import { closedLoop, openLoop, request } from '../load.ts'
import type { System } from '../system.ts'
import { atLeast, below, cost, info, type Row } from '../table.ts'
import { durableFloor } from './customers.ts'
import { HOLD_FORM, type Measure } from './measure.ts'

/** Signed before a run, so that the load costs no more than the floor's; more than any run can send. */
const PER_SECOND = 15_000

export const webhooks: Measure = {
  name: 'webhooks',
  about: 'POST /stripe: verified, stored, rung, answered, against the durable floor',
  async run(system) {
    const { seconds, rounds, log } = system.options
    const example = await exampleEvent(system)
    await using floor = await durableFloor(system)
    const row = { measure: 'webhooks', unit: 'req/s' } as const
    const rows: Row[] = []
    {
      // All are rung for, and no worker takes part: what is measured is taking in, not what it is taken in for.
      await using host = await system.startProduct('webhooks', { TENANT_WINDOW: '1000000' })
      const take = (run_s: number) => send(host.url, sign(system, example, run_s * PER_SECOND), run_s)
      await take(Math.min(3, seconds))
      await floor.run(Math.min(3, seconds))
      const results = await alternate(rounds, {
        floor: () => floor.run(seconds),
        product: () => take(seconds),
      })
      const rate = Math.round(results.product.rate / 2)
      const { half } = await alternate(rounds, {
        half: () => {
          const signed = sign(system, example, rate * seconds)
          return openLoop({
            url: host.url,
            connections: 64,
            seconds,
            rate,
            expect: 200,
            next: () => signed.pop(),
          })
        },
      })
      rows.push(
        info({ ...row, name: 'Durable floor, again', measured: results.floor.rate }),
        atLeast(
          { ...row, name: 'Webhook in, 64 connections', measured: results.product.rate },
          { name: 'durable floor', value: results.floor.rate },
          0.5,
        ),
        info({ ...row, unit: 'ms', name: 'Webhook in, p99 at that rate', measured: results.product.p99_ms }),
        below(
          { ...row, unit: 'ms', name: `Webhook in, p99 at ${rate}/s, half of it`, measured: half.p99_ms },
          25,
        ),
        cost({ ...row, name: 'Webhook in' }, results.product, { ...results.floor, name: 'durable floor' }),
      )
    }
    await system.sql`truncate notifications, jobs, job_attempts`
    {
      await using host = await system.startProduct('webhooks')
      await using worker = await system.startProduct('worker', { QUEUES: 'notifications' })
      void worker
      const started = performance.now()
      const taken = await send(host.url, sign(system, example, seconds * PER_SECOND), seconds)
      log(`${taken.count.toLocaleString('en-US')} webhooks taken, now applied`)
      await untilApplied(system)
      const rate = taken.count / ((performance.now() - started) / 1000)
      rows.push(
        info({ ...row, name: 'Webhook in, while a worker applies them', measured: taken.rate }),
        info({ ...row, name: 'Webhook in and applied by the worker, sustained', measured: rate }),
      )
    }
    return rows
  },
}

async function send(url: string, signed: string[], seconds: number) {
  return await closedLoop({ url, connections: 64, seconds, expect: 200, next: () => signed.pop() })
}

/** What the provider itself would send about a payment that it knows and we do not. */
async function exampleEvent({ provider }: System): Promise<string> {
  const { url, api_key } = provider('stripe')
  const headers = {
    authorization: `Bearer ${api_key}`,
    'content-type': 'application/x-www-form-urlencoded',
  }
  const made = await fetch(`${url}/v1/payment_intents`, { method: 'POST', headers, body: HOLD_FORM })
  if (!made.ok) throw new Error(await made.text())
  const listed = (await (await fetch(`${url}/v1/events?limit=1`, { headers })).json()) as {
    data: { id: string }[]
  }
  const event = listed.data[0]!
  return JSON.stringify(event).replaceAll(event.id, 'EVENT_ID')
}

function sign({ provider }: System, example: string, count: number): string[] {
  const { webhook_secret } = provider('stripe')
  const t = Math.floor(Date.now() / 1000)
  return Array.from({ length: count }, () => {
    const body = example.replace('EVENT_ID', `evt_${freshKey()}`)
    const v1 = createHmac('sha256', webhook_secret).update(`${t}.${body}`).digest('hex')
    return request(
      'POST',
      '/stripe',
      { 'content-type': 'application/json; charset=utf-8', 'stripe-signature': `t=${t},v1=${v1}` },
      body,
    )
  })
}

async function untilApplied({ sql }: System): Promise<void> {
  for (;;) {
    const [row] = await sql<{ open: boolean }[]>`
      select exists (select from notifications where state = 'received') as open`
    if (!row!.open) return
    await sleep(50)
  }
}

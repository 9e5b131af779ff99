// Receives notifications of the provider, compared with one INSERT: each notification is verified, stored and answered,
// and a worker is woken.
import { createHmac } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { freshKey } from '#test/client.ts'
import { runAlternately } from '../compare.ts'
import { closedLoop, openLoop, request } from '../load.ts'
import type { System } from '../system.ts'
import { atLeast, below, cost, info, type Row } from '../table.ts'
import { paymentBody } from './captures/requests.ts'
import { durableFloor } from './customers.ts'
import { AUTHORIZATION_FORM, type Measure } from './measure.ts'

/**
 * Number of events for each second of a run, more than any run can send. They are signed before the run, so that the
 * load generator uses no more processor time than with the floor, which needs no signatures.
 */
const SIGNED_PER_SECOND = 15_000

/** Wake-ups are sent, but no worker runs: only receiving is measured. */
const NO_WORKER = { TENANT_WINDOW: '1000000' }

const row = { measure: 'webhooks', unit: 'req/s' } as const

export const webhooks: Measure = {
  name: 'webhooks',
  about:
    'POST /stripe: verified, stored, answered, against the durable floor; redundant events; processed by a worker',
  async guarded(system, cleanup) {
    const unknown = await unknownPaymentEvent(system)
    cleanup.defer(() => discardNotifications(system))
    const host = cleanup.use(await system.startProduct('webhooks', NO_WORKER))
    const floor = cleanup.use(await durableFloor(system))
    return [
      {
        name: 'Webhook in',
        product: (seconds) => receive(system, host.url, unknown, seconds),
        floor: floor.run,
      },
    ]
  },
  async run(system) {
    const { seconds, log } = system.options
    const unknown = await unknownPaymentEvent(system)
    const redundant = await redundantEvent(system)
    const rows: Row[] = []
    {
      await using host = await system.startProduct('webhooks', NO_WORKER)
      rows.push(...(await measureReceiving(system, host.url, 'Webhook in', unknown)))
      rows.push(...(await measureReceiving(system, host.url, 'Webhook in, redundant', redundant)))
    }
    await discardNotifications(system)
    {
      await using host = await system.startProduct('webhooks')
      await using worker = await system.startProduct('worker', { QUEUES: 'notifications' })
      void worker
      const started = performance.now()
      const received = await receive(system, host.url, unknown, seconds)
      log(`${received.count.toLocaleString('en-US')} webhooks received, processing them`)
      await untilProcessed(system)
      const rate = received.count / ((performance.now() - started) / 1000)
      rows.push(
        info({ ...row, name: 'Webhook in, while a worker processes them', measured: received.rate }),
        info({ ...row, name: 'Webhook in and processed by the worker, sustained', measured: rate }),
      )
    }
    return rows
  },
}

/** Returns the body of a new event. */
type Events = () => string

async function measureReceiving(system: System, url: string, name: string, events: Events): Promise<Row[]> {
  const { seconds, rounds, log } = system.options
  log(name)
  await using floor = await durableFloor(system)
  await receive(system, url, events, Math.min(3, seconds))
  await floor.run(Math.min(3, seconds))
  const { product, floor: durable } = await runAlternately(rounds, {
    floor: () => floor.run(seconds),
    product: () => receive(system, url, events, seconds),
  })
  const rate = Math.round(product.rate / 2)
  const { half, floor_there } = await runAlternately(rounds, {
    floor_there: () => floor.at(rate, seconds),
    half: () => {
      const signed = sign(system, events, rate * seconds)
      return openLoop({ url, connections: 64, seconds, rate, expect: 200, next: () => signed.pop() })
    },
  })
  return [
    info({ ...row, name: 'Durable floor, repeated', measured: durable.rate }),
    atLeast(
      { ...row, name: `${name}, 64 connections`, measured: product.rate },
      { name: 'durable floor', value: durable.rate },
      0.5,
    ),
    info({ ...row, unit: 'ms', name: `${name}, p99 at that rate`, measured: product.p99_ms }),
    below({ ...row, unit: 'ms', name: `${name}, p99 at ${rate}/s, half of it`, measured: half.p99_ms }, 25),
    info(
      { ...row, unit: 'ms', name: `${name}, p99 at ${rate}/s`, measured: half.p99_ms },
      { name: 'durable floor', value: floor_there.p99_ms },
    ),
    cost({ ...row, name }, product, { ...durable, name: 'durable floor' }),
  ]
}

async function receive(system: System, url: string, events: Events, seconds: number) {
  const signed = sign(system, events, seconds * SIGNED_PER_SECOND)
  return await closedLoop({ url, connections: 64, seconds, expect: 200, next: () => signed.pop() })
}

/** Deletes the notifications that no worker has processed, so that no later worker does. */
async function discardNotifications({ sql }: System): Promise<void> {
  await sql`truncate notifications, jobs, job_attempts`
}

/** Events of payments that do not exist here, each of a different payment: every event needs a job and a lookup. */
async function unknownPaymentEvent(system: System): Promise<Events> {
  const { url, api_key } = system.provider('stripe')
  const headers = {
    authorization: `Bearer ${api_key}`,
    'content-type': 'application/x-www-form-urlencoded',
  }
  const created = await fetch(`${url}/v1/payment_intents`, {
    method: 'POST',
    headers,
    body: AUTHORIZATION_FORM,
  })
  const text = await created.text()
  if (!created.ok) throw new Error(text)
  const { id } = JSON.parse(text) as { id: string }
  const example = await eventOf(system, id)
  return () => example.replaceAll(id, `pi_${freshKey()}`)
}

/** Events that change nothing, about one of our authorized payments. */
async function redundantEvent(system: System): Promise<Events> {
  await using api = await system.startProduct('api')
  await using worker = await system.startProduct('worker')
  void worker
  const { authorization } = system.keys[0]!
  const headers = { authorization, 'content-type': 'application/json' }
  const created = await fetch(`${api.url}/v1/payments`, { method: 'POST', headers, body: paymentBody() })
  const text = await created.text()
  if (created.status !== 201) throw new Error(text)
  const { processor_reference } = JSON.parse(text) as { processor_reference: string }
  const example = await eventOf(system, processor_reference)
  return () => example
}

/** The event of the authorization, as the provider sends it. */
async function eventOf({ provider }: System, reference: string): Promise<string> {
  const { url, api_key } = provider('stripe')
  const listed = await fetch(`${url}/v1/events?type=payment_intent.amount_capturable_updated&limit=1`, {
    headers: { authorization: `Bearer ${api_key}` },
  })
  const { data } = (await listed.json()) as { data: { id: string; data: { object: { id: string } } }[] }
  const [event] = data
  if (event?.data.object.id !== reference)
    throw new Error(`the newest event at the provider is not about ${reference}`)
  return JSON.stringify(event).replaceAll(event.id, 'EVENT_ID')
}

function sign({ provider }: System, events: Events, count: number): string[] {
  const { webhook_secret } = provider('stripe')
  const t = Math.floor(Date.now() / 1000)
  return Array.from({ length: count }, () => {
    const body = events().replace('EVENT_ID', `evt_${freshKey()}`)
    const v1 = createHmac('sha256', webhook_secret).update(`${t}.${body}`).digest('hex')
    return request(
      'POST',
      '/stripe',
      { 'content-type': 'application/json; charset=utf-8', 'stripe-signature': `t=${t},v1=${v1}` },
      body,
    )
  })
}

/** Waits for the first attempt of each job. Later lookups of unknown payments are not waited for. */
async function untilProcessed({ sql }: System): Promise<void> {
  for (;;) {
    const [row] = await sql<{ open: boolean }[]>`
      select exists (select from jobs where finished_at is null and (state = 'running' or attempt = 0)) as open`
    if (!row!.open) return
    await sleep(50)
  }
}

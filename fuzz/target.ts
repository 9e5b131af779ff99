// What is fuzzed: a system with two tenants, the things that they have, and a look at what it stores.
import { setTimeout as sleep } from 'node:timers/promises'
import { SYSTEM_TENANT_ID } from '#core/ids.ts'
import { problemsLeft } from '#test/invariants.ts'
import { createClient, freshKey, type Client } from '#test/client.ts'
import { readDocument } from '#test/documentation.ts'
import { createKey } from '#test/environment.ts'
import { startKyc } from '#test/kyc.ts'
import { MERCHANT, RECIPIENT } from '#test/parties.ts'
import { capturedPayment, heldPayment, refund } from '#test/payments.ts'
import { payOut, recipient } from '#test/payouts.ts'
import type { Process } from '#test/process.ts'
import type { Deployment } from '#test/deployment.ts'
import { stored } from '#test/refusals.ts'
import { PLACEHOLDER } from './requests.ts'
import type { Sent } from './wire.ts'

/** Stands in everything that the other tenant has: no answer may hold it. */
export const MARK = 'belongs-to-another-tenant'
const HELD_MINOR = 100_000
/** Between two looks at a system whose jobs cannot be seen. */
const STILL_MS = 150

export type Target = {
  url: string
  document: any
  client: Client
  /** Where and how to send notifications; null: they are not fuzzed. */
  webhooks: { url: string; secret: string } | null
  /** Whether requests without an end are ended soon enough to wait for it. */
  impatient: boolean
  /** Puts in what the placeholders stand for, and makes it where there is none. */
  concrete(sent: Sent): Promise<Sent>
  /** Has to be told what was sent and taken: what it used up is made anew. */
  taken(sent: Sent): void
  /** What is stored, once nothing is under way. */
  stored(): Promise<string>
  /** How many notifications are stored that the processor never sent. */
  notifications(): Promise<number>
  /** What is wrong in the end: books that do not add up, processes that ended, logs that hold what they must not. */
  problems(): Promise<string[]>
}

type Running = { api: Process; others: Process[] }

/** A deployment of processes, with a new tenant; `running`: what it has started. */
export async function deployedTarget(deployment: Deployment, running: Running): Promise<Target> {
  const { sql, env, client } = deployment
  const other = createClient(client.url, (await createKey(sql, 'neighbour')).secret)

  async function settled(): Promise<void> {
    for (;;) {
      const [row] = await sql<{ open: number }[]>`
        select (
            select count(*) from jobs
            where finished_at is null and run_at < now() + interval '5 s' and tenant_id <> ${SYSTEM_TENANT_ID}
          ) + (
            -- The emulator soon says what became of these; of one that it leaves pending it says nothing.
            select count(*) from top_ups where status = 'pending' and created_at > now() - interval '2 s'
          ) as open`
      if (row!.open === 0) return
      await sleep(5)
    }
  }

  return {
    ...(await targetOf(client, other)),
    webhooks: {
      url: deployment.webhooks.url,
      secret: deployment.provider('stripe').webhook_secret,
    },
    impatient: Number(env['REQUEST_TIMEOUT_MS'] ?? 30_000) < 10_000,
    async stored() {
      await settled()
      return await stored(deployment)
    },
    async notifications() {
      const [row] = await sql<{ count: number }[]>`
        select count(*) from notifications where event_id !~ '^evt_[A-Za-z0-9]{20,}$'`
      return row!.count
    },
    async problems() {
      const books = await problemsLeft(deployment)
      return [
        ...books.map((each) => JSON.stringify(each)),
        ...[running.api, ...running.others].flatMap(strange),
      ]
    },
  }

  // Whatever is asked, a log is one line of JSON for each thing said, and tells nobody's secrets.
  function strange(process: Process): string[] {
    return process
      .output()
      .split('\n')
      .filter((line) => {
        if (line === '') return false
        try {
          const said = JSON.parse(line) as { msg?: unknown; level?: unknown }
          return typeof said.level !== 'number' || said.msg === 'forged' || line.includes(client.key)
        } catch {
          return true
        }
      })
      .map((line) => `a strange line in a log: ${line}`)
  }
}

/** A system that runs already; what it stores is what its lists show. The keys' tenants should be nobody else's. */
export async function runningTarget(options: {
  url: string
  key: string
  other_key?: string | undefined
  webhooks_url?: string | undefined
  webhook_secret?: string | undefined
}): Promise<Target> {
  const url = options.url.replace(/\/+$/, '')
  const client = createClient(url, options.key)
  const other = options.other_key === undefined ? null : createClient(url, options.other_key)
  const { webhooks_url, webhook_secret } = options
  const shown = async () => {
    const lists = await Promise.all(
      [client, ...(other ? [other] : [])].flatMap((each) => [
        each.get('/v1/payments?limit=100'),
        each.get('/v1/customers?limit=100&deleted=true'),
        each.get('/v1/recipients?limit=100'),
        each.get('/v1/merchants?limit=100'),
        each.get('/v1/payouts?limit=100'),
        each.get('/v1/compliance/kyc?limit=100'),
      ]),
    )
    return JSON.stringify(lists.map(({ body }) => body))
  }
  return {
    ...(await targetOf(client, other)),
    webhooks:
      webhooks_url === undefined || webhook_secret === undefined
        ? null
        : { url: webhooks_url.replace(/\/+$/, ''), secret: webhook_secret },
    impatient: false,
    async stored() {
      // A refund that is under way shows nowhere: what looks the same twice is taken to be settled.
      for (let before = await shown(); ;) {
        await sleep(STILL_MS)
        const now = await shown()
        if (now === before) return now
        before = now
      }
    },
    notifications: () => Promise.resolve(0),
    problems: () => Promise.resolve([]),
  }
}

async function targetOf(
  client: Client,
  other: Client | null,
): Promise<Pick<Target, 'url' | 'document' | 'client' | 'concrete' | 'taken'>> {
  const document = await readDocument(client)
  const own = createThings(client, {})
  const others =
    other &&
    createThings(
      other,
      { description: MARK, metadata: { [MARK]: MARK } },
      { name: MARK, email: MARK, external_id: MARK },
      { metadata: MARK },
    )

  async function valueOf(name: string): Promise<string> {
    if (name === 'fresh') return freshKey()
    if (name === 'api_key') return client.key
    const [first, second] = name.split('.') as [string, string | undefined]
    if (first === 'upper') return (await own.find(second!)).toUpperCase()
    if (first === 'other') return others ? await others.find(second!) : '0198f6f0-1234-7000-8000-123456789abd'
    return await own.find(first)
  }

  return {
    url: client.url,
    document,
    client,
    async concrete(sent) {
      const { target, headers, body } = sent
      const all = [target, ...headers.map(([, value]) => value), body ?? '']
      const names = new Set(
        all.flatMap((text) => Array.from(text.matchAll(PLACEHOLDER), ([, name]) => name!)),
      )
      const values = new Map<string, string>()
      // One after the other: a payment that two of them need is made once.
      for (const name of names) values.set(name, await valueOf(name))
      const put = (text: string) => text.replaceAll(PLACEHOLDER, (_, name: string) => values.get(name)!)
      return {
        ...sent,
        target: put(target),
        headers: headers.map(([name, value]) => [name, put(value)] as const),
        body: body === null ? null : put(body),
      }
    },
    taken: ({ target }) => own.forget(target.toLowerCase()),
  }
}

/** What a tenant has, made when it is first needed and again when it was used up. */
function createThings(
  client: Client,
  payment: Record<string, unknown>,
  customer: Record<string, unknown> = {},
  party: Record<string, unknown> = {},
) {
  const made = new Map<string, string>()
  const held = async () => (await heldPayment(client, { amount_minor: HELD_MINOR, ...payment })).id
  const captured = async () => (await capturedPayment(client, { amount_minor: HELD_MINOR, ...payment })).id
  const makers: Record<string, () => Promise<string>> = {
    customer: async () => {
      const body = { idempotency_key: freshKey(), name: 'Ada', ...customer }
      return (await client.post('/v1/customers', body)).body.id
    },
    async recipient() {
      const body = { idempotency_key: freshKey(), ...RECIPIENT, ...party }
      return (await client.post('/v1/recipients', body)).body.id
    },
    async merchant() {
      const body = { idempotency_key: freshKey(), ...MERCHANT, ...party }
      return (await client.post('/v1/merchants', body)).body.id
    },
    async payout() {
      await capturedPayment(client, { amount_minor: HELD_MINOR, ...payment })
      const body = { amount_minor: 100, description: payment['description'], ...party }
      return (await payOut(client, await recipient(client, 'ba_manual'), body)).body.id
    },
    async kyc() {
      const body = { name: 'Ada', ...customer, idempotency_key: freshKey() }
      const { id } = (await client.post('/v1/customers', body)).body
      return (await startKyc(client, { subject_id: id, ...party })).body.id
    },
    held,
    captured,
    async refunded() {
      const id = await captured()
      await refund(client, id)
      return id
    },
    async refund() {
      const { metadata } = payment
      return (
        await refund(client, await captured(), {
          amount_minor: 100,
          ...(metadata !== undefined && { metadata }),
        })
      ).body.id
    },
    async reference() {
      return (await capturedPayment(client, { amount_minor: HELD_MINOR, ...payment })).processor_reference
    },
    async key() {
      const idempotency_key = freshKey()
      await client.post('/v1/customers', { idempotency_key, ...customer })
      return idempotency_key
    },
  }
  return {
    async find(name: string): Promise<string> {
      const known = made.get(name)
      if (known !== undefined) return known
      const make = makers[name]
      // A placeholder that was spoiled stands for nothing.
      if (make === undefined) return `@{${name}}`
      const id = await make()
      made.set(name, id)
      return id
    },
    /** Lets go what stands in this text. */
    forget(text: string): void {
      for (const [name, id] of made) if (text.includes(id)) made.delete(name)
    },
  }
}

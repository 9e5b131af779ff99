// Tests the generic plan of each statement that the processes send, on tables with the statistics of another state: a
// prepared statement keeps its plan when its tables grow.
import postgres from 'postgres'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { createLog } from '#core/log.ts'
import { connectDatabase } from '#core/pool.ts'
import { BY_CARD, createClient, freshKey, type Client } from '#test/client.ts'
import { LOOPBACK, openHook, registerEndpoint, untilArrived, type TestHook } from '#test/deliveries.ts'
import { createKey } from '#test/environment.ts'
import { startInThisProcess } from '#test/parts.ts'
import { authorizedPayment, capturedPayment, eventually, refund } from '#test/payments.ts'
import { payOut, payoutIn, recipient } from '#test/payouts.ts'
import { fullScansOf, genericPlan, injectStatistics, readIndexes, STATISTICS } from '#test/plans.ts'
import { startStatementTap, type SentStatement, type StatementTap } from '#test/statement-tap.ts'
import { settleSession, verificationIn, verificationOf } from '#test/verifications.ts'
import { createWorld, type World } from '#test/world.ts'

/** The sessions of work that is done once a minute or less often. */
const RECURRING = 'sluice-worker-recurring'

let world: World
let tap: StatementTap
let statements: SentStatement[]

beforeAll(async () => {
  world = await createWorld({ queue: 'postgres', env: LOOPBACK, parts: [] })
  tap = await startStatementTap(world.config.DATABASE_URL!)
  const env = { ...world.env, DATABASE_URL: tap.url }
  const log = createLog('silent', 'test')
  const start = (name: 'api' | 'webhooks' | 'worker' | 'dashboard', more = {}) =>
    startInThisProcess(name, { ...env, ...more }, log)
  const webhooks = await start('webhooks')
  const [api, worker, dashboard] = [
    await start('api', { WEBHOOKS_URL: webhooks.url }),
    await start('worker', { WEBHOOKS_URL: webhooks.url }),
    await start('dashboard'),
  ]
  const hook = await openHook(() => 200)
  try {
    const { secret } = await createKey(world.sql, 'acme')
    await useEverything(createClient(api.url!, secret), hook)
    await world.drain()
  } finally {
    await hook.close()
    for (const part of [api, webhooks, worker, dashboard]) await part.close()
  }
  statements = tap
    .statements()
    .filter(
      ({ application, text }) =>
        application !== RECURRING && /^\s*(select|with|insert|update|delete)\b/.test(text),
    )
  return async () => {
    await tap.close()
    await world.close()
  }
})

/** Has the processes send each of their frequent statements. */
async function useEverything(client: Client, hook: TestHook): Promise<void> {
  await registerEndpoint(client, { url: hook.url })
  const payment = await capturedPayment(client, { amount_minor: 5_000 })
  const body = { ...BY_CARD, amount_minor: 1000, idempotency_key: freshKey() }
  const [first, replayed] = [await client.post('/v1/payments', body), await client.post('/v1/payments', body)]
  expect(replayed.body.id).toBe(first.body.id)
  await refund(client, payment.id, { amount_minor: 300 })
  const { id } = await authorizedPayment(client)
  await client.post(`/v1/payments/${id}/cancel`)
  const payout = await payOut(client, await recipient(client))
  await payoutIn(client, payout.body.id, 'paid')
  const verification = await verificationOf(client)
  await settleSession(world, verification.provider_reference, 'verified')
  await verificationIn(client, verification.id, 'approved')
  const sms = { idempotency_key: freshKey(), to: '+4915112345678', body: 'Hello' }
  expect((await client.post('/v1/messages/sms', sms)).status).toBeLessThan(300)
  const task = { idempotency_key: freshKey(), kind: 'generate', input: { prompt: 'A haiku.' } }
  expect((await client.post('/v1/ai/tasks', task, { prefer: 'wait=30' })).status).toBeLessThan(300)
  await untilArrived(hook, 3)
  await eventually(async () => expect((await client.get('/v1/events?after=5')).body).not.toHaveLength(0))
  for (const path of ['payments', 'events', 'payouts', 'customers', 'wallet/transactions'])
    expect([path, (await client.get(`/v1/${path}`)).status]).toEqual([path, 200])
}

/** The frequent statements, by a part of their texts. */
const FREQUENT: Record<string, RegExp> = {
  'accept a payment': /insert into payments\b/,
  'request a capture': /update payments p set .*capturing/,
  'request a refund': /insert into refunds\b/,
  'claim jobs': /update jobs j set state = 'running', attempt = j\.attempt \+ 1/,
  'settle payments': /with fenced as .*update payments\b/,
  'settle refunds': /with fenced as .*update refunds\b/,
  'settle payouts': /with fenced as .*update payouts\b/,
  'settle verifications': /with fenced as .*update verifications\b/,
  'settle messages': /with fenced as .*update messages\b/,
  'settle AI tasks': /with fenced as .*update ai_tasks\b/,
  'settle deliveries': /with fenced as .*update webhook_deliveries\b/,
  'sequence events': /from sequence_events\(/,
  'scan for due jobs': /with recursive visit as .*lease_until <= now\(\)/,
  'scan for due jobs without a wake-up':
    /with recursive visit as .*j\.wakeup_sent_at is null and j\.state <> 'running'/,
  'store notifications': /insert into notifications \(id, provider/,
  'find the key of a caller': /from api_keys\b.* where hash = any/,
  'find an idempotency key': /select k\.key, k\.scope as route/,
  'list events': /from feed_entries f cross join lateral/,
  'claim deliveries': /delete from webhook_due w using/,
}

test.for(Object.entries(FREQUENT))('the processes were seen to %s', ([_name, text]) => {
  expect(statements.some((sent) => text.test(sent.text.replaceAll(/\s+/g, ' ')))).toBe(true)
})

describe('no generic plan scans a whole table or index that grows', () => {
  test.for(Object.entries(STATISTICS))('with statistics %s', async ([_name, statistics]) => {
    const sql = postgres(world.config.DATABASE_URL!, { max: 1, onnotice: () => {} })
    onTestFinished(() => sql.end())
    await injectStatistics(sql, statistics)
    const indexes = await readIndexes(sql)
    const found: string[] = []
    // The owner of the tables: the statement audit reads what the users of processes send. Row-level security changes
    // no plan: see roles.test.ts.
    const session = connectDatabase(world.config.DATABASE_URL!, { max: 1, application_name: 'test' })
    onTestFinished(() => session.end())
    for (const statement of statements)
      for (const scan of fullScansOf(await genericPlan(session, statement), indexes))
        found.push(`${scan}: ${statement.user}\n${statement.text}`)
    expect(found).toEqual([])
  })
})

test.for<[name: string, text: string, table: string]>([
  ['a table without an index for the condition', `select from payments where amount_minor = $1`, 'payments'],
  [
    'a partial index whose condition is a parameter',
    `select from jobs where queue = $1 and state = $2`,
    'jobs',
  ],
])('a full scan is found: %s', async ([_name, text, table]) => {
  const sql = postgres(world.config.DATABASE_URL!, { max: 1, onnotice: () => {} })
  onTestFinished(() => sql.end())
  const session = connectDatabase(world.config.DATABASE_URL!, { max: 1, application_name: 'test' })
  onTestFinished(() => session.end())
  const types = Array.from(text.matchAll(/\$\d/g), () => 0)
  const scans = fullScansOf(await genericPlan(session, { text, types }), await readIndexes(sql))
  expect(scans).toEqual([expect.stringContaining(table)])
})

test.for([
  ['limits its transactions to 30 s', 'transaction_timeout', '30000'],
  ['ends soon after the host of its process', 'tcp_keepalives_idle', '60'],
] as const)('each session of a process %s', ([_claim, name, value]) => {
  const others = tap.sessions.filter(
    (session) => session[name] !== value && session['options']?.includes(`${name}=${value}`) !== true,
  )
  expect(others.map(({ application_name, user }) => `${application_name} ${user}`)).toEqual([])
  expect(tap.sessions.filter(({ options }) => options !== undefined)).not.toEqual([])
})

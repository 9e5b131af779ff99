// The dashboard: answer times and rendering times of its pages in a database with many jobs, and the cost of open
// dashboards for the API.
import { randomUUID } from 'node:crypto'
import { setTimeout } from 'node:timers/promises'
import { hashPassword } from 'better-auth/crypto'
import { connectDatabase } from '#core/pool.ts'
import type { Sql } from '#core/db.ts'
import { createUser } from '#domain/people/users.ts'
import { createTemporaryFolder } from '#test/folders.ts'
import { needRedis } from '#test/redis.ts'
import { median } from '../compare.ts'
import { cpuTimes } from '../cpu.ts'
import { closedLoop, openLoop, request } from '../load.ts'
import { createKeys, type System } from '../system.ts'
import { atMost, below, info, type Row } from '../table.ts'
import { openPages } from './dashboard/browser.ts'
import { fillRollups } from './dashboard/rollups.ts'
import { fill } from './growth/fill.ts'
import type { Measure } from './measure.ts'

/** A page must render within a second in the browser. */
const PAGE_MS = 1_000
/** Number of simulated users. Each has a page that refreshes, and reads `/api/ops/stream`. */
const VIEWERS = 5
const REFRESH_INTERVAL_MS = 5_000
/** The measured time, long enough to request each page at least once. */
const CPU_WINDOW_MS = 40_000

const PASSWORD = 'correct horse battery staple'
const EMAIL = 'bench@sluice.example'

export const dashboard: Measure = {
  name: 'dashboard',
  about: 'only when named: answers of its pages with --finished finished jobs, and its cost for the API',
  on_demand: true,
  async run(system) {
    const { finished, log, rounds, seconds } = system.options
    await using side = await openSystem(system, finished)
    const pages = await pagesOf(side.sql)
    const row = { measure: 'dashboard' } as const
    const [jobs, payments] = [finished, Math.ceil(finished / 2)].map((each) => each.toLocaleString('en-US'))
    const many = `${payments} payments, ${jobs} jobs`
    const rows: Row[] = []
    for (const [name, { requests }] of Object.entries(pages)) {
      log(`answers of the page ${name}`)
      const times = await timesOf(side, requests)
      const name_of = `Answers of the page ${name}, ${many}`
      rows.push(
        below({ ...row, unit: 'ms', name: `${name_of}, first time`, measured: times[0]! }, PAGE_MS),
        info({ ...row, unit: 'ms', name: `${name_of}, median`, measured: median(times.slice(1)) }),
      )
    }
    log('pages in Chromium')
    const opened = await openPages(
      side,
      Object.values(pages).map(({ address }) => address),
    )
    for (const [name, { address }] of Object.entries(pages))
      rows.push(
        below(
          { ...row, unit: 'ms', name: `Page ${name} in Chromium, ${many}`, measured: opened.get(address)! },
          PAGE_MS,
        ),
      )
    log('the cost of open dashboards')
    const requests = Object.values(pages).map((page) => page.requests)
    const quiet = await cpuPercent()
    {
      await using _viewers = watch(side, requests)
      const name_of = `Processor time of ${VIEWERS} open dashboards, of a core, ${many}`
      rows.push(info({ ...row, unit: '%', name: name_of, measured: (await cpuPercent()) - quiet }))
    }
    log('the API with open dashboards')
    const nextRequest = createCustomers(side)
    const max_load = await closedLoop({
      url: side.api_url,
      connections: 64,
      seconds,
      expect: 201,
      next: nextRequest,
    })
    const rate = max_load.rate / 2
    const run = () =>
      openLoop({ url: side.api_url, connections: 64, seconds, expect: 201, next: nextRequest, rate })
    await run()
    const [alone, with_viewers]: [number[], number[]] = [[], []]
    for (let round = 0; round < rounds * 2; round++) {
      alone.push((await run()).p99_ms)
      await using _viewers = watch(side, requests)
      with_viewers.push((await run()).p99_ms)
    }
    rows.push(
      atMost(
        {
          ...row,
          unit: 'ms',
          name: `Create a customer, p99 at half of the maximum rate, ${VIEWERS} open dashboards`,
          measured: median(with_viewers),
        },
        { name: 'closed dashboard', value: median(alone) },
        1.05,
      ),
    )
    return rows
  },
}

type DashboardSystem = { sql: Sql; api_url: string; dashboard_url: string; cookie: string; keys: string[] }

/**
 * A database with its own Redis, API, worker and dashboard, and an owner of its first tenant who is also an operator.
 */
async function openSystem(system: System, finished: number): Promise<DashboardSystem & AsyncDisposable> {
  await using cleanup = new AsyncDisposableStack()
  const database_url = await system.createDatabase('migrated')
  const sql = connectDatabase(database_url, { max: 2, application_name: 'bench' })
  cleanup.defer(() => sql.end())
  const keys = await createKeys(sql, 100)
  system.options.log(`writing ${finished.toLocaleString('en-US')} finished jobs and what belongs to them`)
  await fill(database_url, finished)
  await fillRollups(database_url)
  await createOwner(sql, keys[0]!.tenant_id)
  const folder = await createTemporaryFolder('bench')
  cleanup.defer(() => folder.remove())
  const redis = await needRedis({ data_dir: folder.path })
  cleanup.defer(() => redis.stop())
  const env = { DATABASE_URL: database_url, REDIS_URL: redis.url }
  const api = cleanup.use(await system.startProduct('api', env))
  cleanup.use(await system.startProduct('worker', env))
  const { url: dashboard_url } = cleanup.use(await system.startProduct('dashboard', env))
  const cookie = await signIn(dashboard_url)
  const disposables = cleanup.move()
  return {
    sql,
    api_url: api.url,
    dashboard_url,
    cookie,
    keys: keys.map(({ authorization }) => authorization),
    [Symbol.asyncDispose]: () => disposables.disposeAsync(),
  }
}

async function createOwner(sql: Sql, tenant_id: string): Promise<void> {
  const password_hash = await hashPassword(PASSWORD)
  await sql.begin(async (tx) => {
    const id = await createUser(tx, {
      name: 'Bench',
      email: EMAIL,
      email_verified: true,
      password_hash,
      is_operator: true,
    })
    await tx`insert into members (tenant_id, user_id, role) values (${tenant_id}, ${id!}, 'owner')`
  })
}

async function signIn(url: string): Promise<string> {
  const answer = await fetch(`${url}/api/auth/sign-in/email`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', origin: url },
    body: JSON.stringify({ email: EMAIL, password: PASSWORD }),
  })
  if (!answer.ok) throw new Error(`the sign-in answered ${answer.status}`)
  return answer.headers
    .getSetCookie()
    .map((cookie) => cookie.split(';')[0])
    .join('; ')
}

/** For each page: its address, and the requests that the page sends. */
async function pagesOf(sql: Sql): Promise<Record<string, { address: string; requests: string[] }>> {
  const [payment] = await sql<{ id: string; tenant_id: string }[]>`
    select id, tenant_id from payments where tenant_id = (
      select tenant_id from members order by created_at limit 1) order by created_at desc limit 1`
  const [job] = await sql<{ id: string }[]>`select id from jobs order by id limit 1`
  const [from, to] = [new Date(Date.now() - 7 * 86_400_000).toISOString(), new Date().toISOString()]
  const series = `/api/ops/series?queue=payments&from=${encodeURIComponent(from)}&to=${encodeURIComponent(to)}&points=60`
  const list = (resource: string) => ({ address: `/${resource}`, requests: [`/api/v1/${resource}?limit=25`] })
  const jobs = (query: string) => ({ address: `/ops/jobs${query}`, requests: [`/api/ops/jobs${query}`] })
  return {
    Overview: { address: '/', requests: ['/api/session', '/api/overview'] },
    Payments: { address: '/payments', requests: ['/api/v1/payments?limit=25'] },
    'Payments of one status': {
      address: '/payments?status=captured',
      requests: ['/api/v1/payments?limit=25&status=captured'],
    },
    Payment: {
      address: `/payments/${payment!.id}`,
      requests: ['', '/timeline', '/events'].map((part) => `/api/v1/payments/${payment!.id}${part}`),
    },
    'Payments that failed': {
      address: '/payments?status=failed',
      requests: ['/api/v1/payments?limit=25&status=failed'],
    },
    Customers: list('customers'),
    Refunds: list('refunds'),
    Payouts: list('payouts'),
    Wallet: {
      address: '/wallet',
      requests: ['/api/v1/wallet/balances', '/api/v1/wallet/transactions?limit=25'],
    },
    Compliance: { address: '/compliance', requests: ['/api/v1/compliance/kyc?limit=25'] },
    Messages: list('messages'),
    Events: list('events'),
    Webhooks: { address: '/webhooks', requests: ['/api/v1/webhook_endpoints?limit=25'] },
    'API keys': { address: '/settings/api-keys', requests: ['/api/keys'] },
    Queues: {
      address: '/ops/queues',
      requests: ['queues', 'pauses', 'shares?window=1h', 'providers'].map((path) => `/api/ops/${path}`),
    },
    Queue: {
      address: '/ops/queues/payments?range=7d',
      requests: [
        series,
        '/api/ops/queues/payments/names?window=7d',
        '/api/ops/shares?queue=payments&window=7d',
      ],
    },
    Jobs: jobs(''),
    'Jobs that succeeded': jobs('?state=succeeded'),
    'Jobs that failed': jobs('?state=failed'),
    'Jobs of a payment': jobs(`?state=all&search=${payment!.id}`),
    'Jobs by a text': jobs('?state=all&search=declined'),
    'Jobs of a tenant': jobs(`?state=all&tenant=${payment!.tenant_id}&name=payment.capture`),
    Job: { address: `/ops/jobs/${job!.id}`, requests: [`/api/ops/jobs/${job!.id}`] },
    Schedules: { address: '/ops/schedules', requests: ['/api/ops/schedules', '/api/ops/processes'] },
    Providers: { address: '/ops/providers', requests: ['/api/ops/providers'] },
    Tenants: { address: '/ops/tenants', requests: ['/api/ops/shares?window=1h'] },
    Drifts: {
      address: '/ops/drifts',
      requests: ['/api/ops/drifts', '/api/ops/parked', '/api/ops/jobs?state=unknown'],
    },
    Audit: { address: '/ops/audit', requests: ['/api/ops/audit'] },
  }
}

/** Six measurements of the time until all requests of a page are answered, in milliseconds. */
async function timesOf({ dashboard_url, cookie }: DashboardSystem, paths: string[]): Promise<number[]> {
  const times: number[] = []
  for (let round = 0; round < 6; round++) {
    const started_at = performance.now()
    await Promise.all(
      paths.map(async (path) => {
        const answer = await fetch(`${dashboard_url}${path}`, { headers: { cookie } })
        if (!answer.ok) throw new Error(`${path} answered ${answer.status}: ${await answer.text()}`)
        await answer.arrayBuffer()
      }),
    )
    times.push(performance.now() - started_at)
  }
  return times
}

/** Processor time of all started processes, in percent of a core. */
async function cpuPercent(): Promise<number> {
  const spent = () =>
    Array.from(cpuTimes()).reduce((sum, [program, ms]) => sum + (program === 'load' ? 0 : ms), 0)
  const before = spent()
  await setTimeout(CPU_WINDOW_MS)
  return ((spent() - before) / CPU_WINDOW_MS) * 100
}

function createCustomers({ keys }: DashboardSystem): () => string {
  let count = 0
  return () => {
    count += 1
    const headers = { authorization: keys[count % keys.length]!, 'content-type': 'application/json' }
    const body = JSON.stringify({
      idempotency_key: randomUUID(),
      name: 'Ada',
      email: `ada-${count}@example.com`,
    })
    return request('POST', '/v1/customers', headers, body)
  }
}

/** Simulates users whose pages are open, until the result is disposed of. */
function watch({ dashboard_url, cookie }: DashboardSystem, pages: string[][]): AsyncDisposable {
  const leaving = new AbortController()
  const { signal } = leaving
  const fetchPath = async (path: string) => {
    const answer = await fetch(`${dashboard_url}${path}`, { headers: { cookie }, signal })
    for await (const _part of answer.body ?? []) if (signal.aborted) return
  }
  const streams = Array.from({ length: VIEWERS }, () => fetchPath('/api/ops/stream').catch(() => {}))
  let round = 0
  const asking = setInterval(() => {
    for (const path of pages[round++ % pages.length]!) void fetchPath(path).catch(() => {})
  }, REFRESH_INTERVAL_MS / VIEWERS)
  return {
    async [Symbol.asyncDispose]() {
      clearInterval(asking)
      leaving.abort()
      await Promise.all(streams)
    },
  }
}

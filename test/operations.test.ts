// Operations over HTTP: who may see them, what each route answers after a mixed run, and what operators do.
import { once } from 'node:events'
import { connect } from 'node:net'
import { hashPassword } from 'better-auth/crypto'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { QUEUES } from '#core/config/queues.ts'
import { newId, newIdsInOrder } from '#core/ids.ts'
import { addMember } from '#domain/people/members.ts'
import type { MemberRole } from '#domain/people/role.ts'
import { createUser } from '#domain/people/users.ts'
import { until } from '#test/process.ts'
import { createWorld, type World } from '#test/world.ts'

const PASSWORD = 'correct horse battery'
type Seen = { status: number; headers: Headers; text: string; body: any }
type Page = {
  email: string
  user_id: string
  cookie: string
  send(method: string, path: string, body?: unknown): Promise<Seen>
  get(path: string): Promise<Seen>
}

let world: World
let operator: Page
beforeAll(async () => {
  world = await createWorld({ parts: ['api', 'webhooks', 'worker', 'dashboard'] })
  operator = await signedIn('operator', { is_operator: true })
})
afterAll(() => world?.close())

async function signedIn(
  name: string,
  { is_operator, role, of = world }: { is_operator?: boolean; role?: MemberRole; of?: World },
): Promise<Page> {
  const { sql, tenant_id, dashboard_url } = of
  const email = `${name}@people.example`
  const password_hash = await hashPassword(PASSWORD)
  const user_id = await sql.begin(async (tx) => {
    const id = (await createUser(tx, {
      name,
      email,
      email_verified: true,
      password_hash,
      ...(is_operator && { is_operator }),
    }))!
    if (role !== undefined) await addMember(tx, { tenant_id, user_id: id, role })
    return id
  })
  let cookie = ''
  async function send(method: string, path: string, body?: unknown): Promise<Seen> {
    const response = await fetch(`${dashboard_url}${path}`, {
      method,
      headers: { cookie, ...(body !== undefined && { 'content-type': 'application/json' }) },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    const is_json = response.headers.get('content-type')?.includes('json') === true && text !== ''
    return {
      status: response.status,
      headers: response.headers,
      text,
      body: is_json ? JSON.parse(text) : undefined,
    }
  }
  const answer = await send('POST', '/api/auth/sign-in/email', { email, password: PASSWORD })
  expect(answer.status).toBe(200)
  cookie = answer.headers
    .getSetCookie()
    .map((each) => each.split(';', 1)[0])
    .join('; ')
  return { email, user_id, cookie, send, get: (path) => send('GET', path) }
}

/** Jobs that no version performs, parked. */
async function parkJobs(count: number, name: string): Promise<string[]> {
  const ids = newIdsInOrder(count)
  await world.sql`
    insert into jobs (id, tenant_id, queue, name, payload, max_attempts, run_at)
    select id, ${world.tenant_id}, 'messages', ${name}, '{}', 1, 'infinity' from unnest(${ids}::uuid[]) id`
  return ids
}

const READS = [
  'queues',
  'queues/payments/names',
  `series?queue=payments&from=${new Date(Date.now() - 3600_000).toISOString()}&to=${new Date().toISOString()}`,
  'shares',
  'tenants?search=acme',
  'providers',
  'processes',
  'schedules',
  'drifts',
  'parked',
  'jobs?state=all',
  'jobs/count',
  'acts',
  'pauses',
  'audit',
]

test('only operators see operations, and a mixed run shows on each page', async () => {
  const owner = await signedIn('owner', { role: 'owner' })
  const { client, sql } = world
  const payment = await client.post('/v1/payments', {
    amount_minor: 4200,
    currency: 'USD',
    method: 'card',
    payment_method: 'pm_card_visa',
    idempotency_key: 'mixed-1',
  })
  await client.post('/v1/payments', {
    amount_minor: 100,
    currency: 'USD',
    method: 'card',
    payment_method: 'pm_card_chargeDeclined',
    idempotency_key: 'mixed-2',
  })
  await world.drain()
  const [parked] = await parkJobs(1, 'mixed.parked')

  for (const path of READS) {
    expect((await fetch(`${world.dashboard_url}/api/ops/${path}`)).status, path).toBe(401)
    expect((await owner.get(`/api/ops/${path}`)).status, path).toBe(403)
    const answer = await operator.get(`/api/ops/${path}`)
    expect([path, answer.status, answer.body?.error]).toEqual([path, 200, undefined])
  }
  expect((await owner.send('POST', '/api/ops/pauses', { queue: 'ai', reason: 'no' })).status).toBe(403)

  const [job] = await sql<{ id: string }[]>`
    select id from jobs where subject_id = ${payment.body.id} union all
    select id from job_history where subject_id = ${payment.body.id}`
  const shown = (await operator.get(`/api/ops/jobs/${job!.id}`)).body
  expect(shown).toMatchObject({
    tenant: 'acme',
    state: 'succeeded',
    works_on: { noun: 'payment', id: payment.body.id, amount_minor: 4200, idempotency_key: 'mixed-1' },
  })
  expect(shown.attempts).toHaveLength(1)
  expect(shown.calls[0].key).toContain(job!.id)
  const found = (await operator.get(`/api/ops/jobs?state=all&search=${payment.body.id}`)).body
  expect(found.items.map(({ id }: { id: string }) => id)).toContain(job!.id)
  const counted = (await operator.get('/api/ops/jobs/count?state=parked&tenant=acme&name=mixed.parked')).body
  expect(counted).toEqual({
    count: 1,
    more: false,
    filter: { state: 'parked', name: 'mixed.parked', tenant_id: world.tenant_id },
  })
  expect((await operator.get('/api/ops/jobs/count?search=mixed')).body.filter).toBeNull()
  expect((await operator.get(`/api/ops/jobs/${parked}`)).body).toMatchObject({ parked: true, run_at: null })
  expect((await operator.get(`/api/ops/jobs/${newId()}`)).status).toBe(404)
  const names = (await operator.get('/api/ops/processes')).body.map(({ name }: { name: string }) => name)
  expect(names).toEqual(expect.arrayContaining(['api', 'dashboard', 'worker']))
  const { queues } = (await operator.get('/api/ops/queues')).body
  expect(queues.map(({ queue }: { queue: string }) => queue)).toEqual([...QUEUES])
})

test('a pause of a tenant in a queue holds its jobs until it is resumed, and both are on record', async () => {
  const { client, sql } = world
  const what = { queue: 'payments', tenant_id: world.tenant_id }
  const paused = await operator.send('POST', '/api/ops/pauses', { ...what, reason: 'bad keys' })
  expect(paused.status).toBe(204)
  expect((await operator.send('POST', '/api/ops/pauses', { ...what, reason: 'again' })).status).toBe(409)
  expect((await operator.get('/api/ops/pauses')).body).toMatchObject([
    {
      queue: 'payments',
      tenant: 'acme',
      tenant_id: world.tenant_id,
      reason: 'bad keys',
      who: operator.email,
    },
  ])
  const seq = Number(paused.headers.get('x-audit-entry'))
  expect((await operator.get(`/api/ops/audit?seq=${seq}`)).body).toMatchObject([
    { seq, actor: operator.email, action: 'jobs.pause', tenant: 'acme', details: { reason: 'bad keys' } },
  ])
  // Workers look at the pauses each second; only what is asked for then is held.
  await until('the workers have seen the pause', async () => {
    const key = `held-${newId()}`
    await client.post(
      '/v1/payments',
      {
        amount_minor: 700,
        currency: 'USD',
        method: 'card',
        payment_method: 'pm_card_visa',
        idempotency_key: key,
      },
      { prefer: 'wait=1' },
    )
    const held = await sql`select from jobs where finished_at is null and attempt = 0 and queue = 'payments'`
    return held.length > 0
  })
  const resumed = await operator.send('POST', '/api/ops/pauses/resume', what)
  expect(resumed.status).toBe(204)
  await world.drain()
  expect((await operator.get('/api/ops/pauses')).body).toEqual([])
  const entry = resumed.headers.get('x-audit-entry')
  expect((await operator.get(`/api/ops/audit?seq=${entry}`)).body).toMatchObject([{ action: 'jobs.resume' }])
})

test('an act on all that a filter finds ends with a result for each job, and is not canceled any more then', async () => {
  const ids = await parkJobs(3, 'acts.parked')
  const asked = await operator.send('POST', '/api/ops/acts', {
    act: 'discard',
    filter: { state: 'parked', name: 'acts.parked' },
    reason: 'nobody knows them',
  })
  expect([asked.status, asked.body.matched]).toEqual([202, 3])
  expect(Number(asked.headers.get('x-audit-entry'))).toBeGreaterThan(0)
  const path = `/api/ops/acts/${asked.body.id}`
  await until('the act is over', async () => (await operator.get(path)).body.state === 'done')
  expect((await operator.get(path)).body).toMatchObject({
    found: 3,
    done: 3,
    refused: 0,
    who: operator.email,
  })
  const items = (await operator.get(`${path}/items`)).body
  expect(items.map(({ job_id, after }: any) => [job_id, after])).toEqual(ids.map((id) => [id, 'discarded']))
  expect((await operator.send('POST', `${path}/cancel`, {})).status).toBe(409)
  const job = (await operator.get(`/api/ops/jobs/${ids[0]}`)).body
  expect(job.interventions).toMatchObject([
    { who: operator.email, act: 'discard', reason: 'nobody knows them' },
  ])
})

test('what came of an act is in the audit log, also in that of the tenant of its job', async () => {
  const owner = await signedIn('auditing', { role: 'owner' })
  const [job_id] = await parkJobs(1, 'acts.audited')
  const asked = await operator.send('POST', '/api/ops/acts', { act: 'discard', job_id, reason: 'wrong' })
  const path = `/api/ops/acts/${asked.body.id}`
  await until('the act is over', async () => (await operator.get(path)).body.state === 'done')
  const seq = asked.headers.get('x-audit-entry')
  for (const answer of [
    await operator.get(`/api/ops/audit?seq=${seq}`),
    await owner.get(`/api/audit?seq=${seq}`),
  ])
    expect(answer.body).toMatchObject([
      {
        subject_id: job_id,
        tenant: 'acme',
        outcome: { state: 'done', done: 1, refused: 0 },
        expects_outcome: true,
      },
    ])
})

test('a reader of the stream that stalls is cut off, and harms nobody', async () => {
  const leaving = await signedIn('stalled', { is_operator: true })
  const { hostname, port } = new URL(world.dashboard_url)
  const socket = connect(Number(port), hostname)
  onTestFinished(() => void socket.destroy())
  socket.write(
    `GET /api/ops/stream HTTP/1.1\r\nhost: ${hostname}:${port}\r\ncookie: ${leaving.cookie}\r\n\r\n`,
  )
  await once(socket, 'data')
  socket.pause()
  const stop = new AbortController()
  onTestFinished(() => stop.abort())
  const reading = { headers: { cookie: operator.cookie }, signal: stop.signal }
  const { body } = await fetch(`${world.dashboard_url}/api/ops/stream`, reading)
  const heard = new Set<string>()
  void (async () => {
    for await (const chunk of body!)
      for (const [round] of new TextDecoder().decode(chunk).matchAll(/round-\d+-end/g)) heard.add(round)
  })().catch(() => {})
  await world.sql`
    with made as (
      insert into tenants (id, slug, name) select gen_random_uuid(), 'stalled-' || n, 'n' from generate_series(1, 4000) n
      returning id
    ) insert into pauses (tenant_id, queue, reason) select id, 'ai', 'x' from made`
  onTestFinished(async () => void (await world.sql`delete from pauses`))
  // More than the machine keeps for a connection, which the other reader takes.
  for (let round = 0; round < 5; round++) {
    await world.sql`update pauses set reason = ${`round-${round}-end`} || repeat('x', 900) where queue = 'ai'`
    await until(`round ${round} is heard`, async () => heard.has(`round-${round}-end`))
  }
  const closed = once(socket, 'close')
  socket.resume()
  await closed
  expect((await operator.get('/api/ops/pauses')).status).toBe(200)
})

test('the stream tells of a pause within moments, and ends when its operator is none any more', async () => {
  const other = await signedIn('leaving', { is_operator: true })
  const response = await fetch(`${world.dashboard_url}/api/ops/stream`, { headers: { cookie: other.cookie } })
  expect(response.headers.get('content-type')).toContain('text/event-stream')
  let heard = ''
  const decoder = new TextDecoder()
  const ended = (async () => {
    for await (const chunk of response.body!) heard += decoder.decode(chunk, { stream: true })
  })()
  await until('all topics are told', async () =>
    ['pauses', 'acts', 'queues'].every((name) => heard.includes(`event: ${name}\n`)),
  )
  await operator.send('POST', '/api/ops/pauses', { queue: 'ai', reason: 'streamed' })
  await until('the pause is told', async () => heard.includes('"reason":"streamed"'))
  await operator.send('POST', '/api/ops/pauses/resume', { queue: 'ai' })
  await world.sql`update users set is_operator = false where id = ${other.user_id}`
  await ended
  expect((await other.get('/api/ops/queues')).status).toBe(403)
})

test.each(['redis', 'postgres'] as const)(
  'bull-board shows the queues on %s to operators, and changes nothing',
  async (queue) => {
    const of = queue === 'redis' ? world : await createWorld({ queue, parts: ['worker', 'dashboard'] })
    if (of !== world) onTestFinished(() => of.close())
    const looking = await signedIn(`looking-${queue}`, { is_operator: true, of })
    const owner = await signedIn(`member-${queue}`, { role: 'owner', of })
    expect((await owner.get('/ops/bull-board')).status).toBe(403)
    expect((await fetch(`${of.dashboard_url}/ops/bull-board/api/queues`)).status).toBe(401)

    const page = await looking.get('/ops/bull-board')
    expect(page.status).toBe(200)
    expect(page.headers.get('content-security-policy')).not.toContain('unsafe')
    expect(page.text).not.toMatch(/(?:src|href)="https?:|<style|style=/)
    const [script] = /static\/js\/main[^"]*/.exec(page.text)!
    expect((await looking.get(`/ops/bull-board/${script}`)).status).toBe(200)
    const { queues } = (await looking.get('/ops/bull-board/api/queues')).body
    expect(queues.map(({ name, readOnlyMode }: any) => [name, readOnlyMode])).toEqual(
      QUEUES.map((name) => [name, true]),
    )
    expect((await looking.send('PUT', '/ops/bull-board/api/queues/payments/pause', {})).status).toBe(404)
  },
)

// Messages of many concurrent callers use limited memory, and a tenant's messages do not delay the messages of another
// tenant.
import { expect, onTestFinished } from 'vitest'
import { createLog } from '#core/log.ts'
import { createClient, freshKey, type Answer, type Client } from '#test/client.ts'
import { MESSAGE_SENDERS } from '#test/messages.ts'
import { startInThisProcess } from '#test/parts.ts'
import { until } from '#test/process.ts'
import { testIn, type World } from '#test/world.ts'

const ASYNC = { prefer: 'respond-async' }
const FILE = { filename: 'a.txt', content_type: 'text/plain' }
const MIB = 1024 * 1024

const test = testIn({ parts: ['api'], env: { ...MESSAGE_SENDERS, DATABASE_POOL: '8' } })

type Tenant = Client & { tenant_id: string }
const newEmail = () => ({ idempotency_key: freshKey(), to: [`${freshKey()}@example.com`], subject: 's' })
const sendEmail = async (by: Client, fields: object = { text: 't' }) =>
  await by.post('/v1/messages/email', { ...newEmail(), ...fields }, ASYNC)
const sendSms = async (by: Client) =>
  await by.post('/v1/messages/sms', { idempotency_key: freshKey(), to: '+4915112345678', body: 't' }, ASYNC)
const sendBatch = async (by: Client, count: number, fields: object) =>
  await by.post('/v1/messages/email/batch', {
    messages: Array.from({ length: count }, () => ({ ...newEmail(), ...fields })),
  })

/** Creates a tenant with a sent email and a template `long` of 240,000 bytes. */
async function createTenant(world: World): Promise<Tenant> {
  const own = await world.clientOf()
  expect((await sendEmail(own)).status).toBe(202)
  const text = `{% for i in (1..4) %}${'€'.repeat(20_000)}{% endfor %}`
  const template = { name: 'long', channel: 'email', subject: 's', text }
  expect((await own.post('/v1/messages/templates', template)).status).toBe(201)
  return own
}
/** Runs `work` while the transaction of `lock` is open. `release` ends the transaction. */
async function whileLocked(
  world: World,
  lock: (sql: World['sql']) => Promise<unknown>,
  work: (release: () => Promise<void>) => Promise<void>,
): Promise<void> {
  const locked = Promise.withResolvers<void>()
  const released = Promise.withResolvers<void>()
  const transaction = world.sql.begin(async (tx) => {
    await lock(tx as unknown as World['sql'])
    locked.resolve()
    await released.promise
  })
  await locked.promise
  const release = async () => {
    released.resolve()
    await transaction
  }
  try {
    await work(release)
  } finally {
    await release()
  }
}
const lockMinuteLimits =
  (...tenants: Tenant[]) =>
  (sql: World['sql']) =>
    sql`
      select from message_limits where scope = 'minute' and tenant_id in ${sql(tenants.map(({ tenant_id }) => tenant_id))}
      for update`
/** The number of statements with this text that wait for a lock. */
async function countBlocked(world: World, text: string): Promise<number> {
  const rows = await world.sql`
    select from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock' and strpos(query, ${text}) > 0`
  return rows.length
}
const collectResponses = (answers: Promise<Answer>[]) => {
  const answered: Answer[] = []
  answers.forEach((answer) => void answer.then((each) => answered.push(each)))
  return answered
}

/**
 * Sends emails. `first`: the first response. `disconnect` closes the caller's connection before the other responses.
 */
function sendEmailsAndDisconnect(by: Client, count: number, fields: object, headers = ASYNC) {
  const caller = new AbortController()
  const sent = Array.from({ length: count }, () =>
    fetch(`${by.url}/v1/messages/email`, {
      method: 'POST',
      headers: { authorization: `Bearer ${by.key}`, 'content-type': 'application/json', ...headers },
      body: JSON.stringify({ ...newEmail(), ...fields }),
      signal: caller.signal,
    }),
  )
  const disconnect = async () => {
    caller.abort()
    await Promise.allSettled(sent)
  }
  return { first: () => Promise.race(sent), disconnect }
}

test('emails of medium size share one memory limit, and do not block small emails', async ({ world }) => {
  const [own, other] = [await createTenant(world), await createTenant(world)]
  await whileLocked(world, lockMinuteLimits(own), async (release) => {
    const sent = [1, 2, 3].map(() => sendBatch(own, 100, { template: 'long' }))
    const more: Promise<Answer>[] = []
    const refused: Answer[] = []
    await until(
      'an email is refused for lack of memory',
      () => {
        const another = sendEmail(own, { template: 'long' })
        more.push(another)
        void another.then((answer) => refused.push(answer))
        return refused.length > 0
      },
      15_000,
    )
    expect([refused[0]!.status, refused[0]!.body.error.code]).toEqual([503, 'overloaded'])
    const small = sendEmail(own)
    expect((await sendEmail(other)).status).toBe(202)
    expect((await sendEmail(other, { template: 'long' })).status).toBe(202)
    await release()
    const answers = await Promise.all(sent)
    const statuses = answers.flatMap(({ body }) => body.map(({ status }: any) => status) as number[])
    const accepted = statuses.filter((status) => status === 202).length
    expect(statuses.filter((status) => status === 503)).toHaveLength(300 - accepted)
    expect(accepted).toBeLessThanOrEqual((32 * MIB) / 240_000)
    expect((await small).status).toBe(202)
    await Promise.all(more)
  })
})

test('a large batch is accepted, and its template is read once', async ({ world }) => {
  const own = await createTenant(world)
  await whileLocked(
    world,
    (sql) => sql`lock table templates`,
    async (release) => {
      const sent = sendBatch(own, 100, { template: 'long' })
      await until(
        'the batch reads its template',
        async () => (await countBlocked(world, 'from templates')) > 0,
      )
      expect(await countBlocked(world, 'from templates')).toBe(1)
      await release()
      const { body } = await sent
      expect(body.map(({ status }: any) => status)).toEqual(Array(100).fill(202))
    },
  )
})

test('replayed messages of a batch count against the memory limit, because the response contains them', async ({
  world,
}) => {
  const own = await createTenant(world)
  const template = {
    name: 'huge',
    channel: 'email',
    subject: 's',
    text: `{% for i in (1..10) %}${'€'.repeat(33_000)}{% endfor %}`,
  }
  expect((await own.post('/v1/messages/templates', template)).status).toBe(201)
  const messages = Array.from({ length: 36 }, () => ({ ...newEmail(), template: 'huge' }))
  const statusesOf = async (subset: object[]): Promise<number[]> => {
    const { body } = await own.post('/v1/messages/email/batch', { messages: subset })
    return body.map(({ status }: any) => status)
  }
  for (const subset of [messages.slice(18), messages.slice(0, 18)])
    expect(await statusesOf(subset)).toEqual(Array(18).fill(202))
  const repeated = await statusesOf(messages)
  expect([202, 503].map((status) => repeated.filter((each) => each === status).length)).toEqual([33, 3])
})

test('another process replays a fully accepted batch in full', async ({ world }) => {
  const own = await createTenant(world)
  const text = `{% for i in (1..10) %}${'€'.repeat(33_000)}{% endfor %}`
  const template = { name: 'huge', channel: 'email', subject: 's', text }
  expect((await own.post('/v1/messages/templates', template)).status).toBe(201)
  const messages = Array.from({ length: 20 }, () => ({ ...newEmail(), template: 'huge' }))
  const other = await startInThisProcess('api', world.env, createLog('silent', 'test'))
  onTestFinished(() => other.close())
  for (const by of [own, createClient(other.url!, own.key)]) {
    const { body } = await by.post('/v1/messages/email/batch', { messages })
    expect(body.map(({ status }: any) => status)).toEqual(Array(20).fill(202))
  }
})

test('the body of a request counts against the memory limit while the request waits for its template', async ({
  world,
}) => {
  const own = await createTenant(world)
  const given = { template: 'long', attachments: [{ ...FILE, content: 'A'.repeat(12 * MIB) }] }
  await whileLocked(
    world,
    (sql) => sql`lock table templates`,
    async (release) => {
      const sent = [1, 2, 3].map(() => sendEmail(own, given))
      const answered = collectResponses(sent)
      await until('an email is refused', () => answered.length > 0, 15_000)
      expect(answered.map(({ body }) => body.error.code)).toEqual(['overloaded'])
      await release()
      expect((await Promise.all(sent)).map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([
        202, 202, 503,
      ])
    },
  )
})

test('large bodies of waiting requests count against the memory limit until the callers disconnect', async ({
  world,
}) => {
  const own = await createTenant(world)
  const large = { text: 't', attachments: [{ ...FILE, content: 'A'.repeat(12 * MIB) }] }
  const { disconnect } = sendEmailsAndDisconnect(own, 2, large, { prefer: 'wait=30' })
  await until('both requests wait', async () => (await own.get('/v1/messages')).body.length === 3)
  expect(await sendEmail(own, large)).toMatchObject({
    status: 503,
    body: { error: { code: 'overloaded', message: expect.stringMatching(/^Too many large bodies/) } },
  })
  expect((await sendEmail(own)).status).toBe(202)
  expect((await sendEmail(await createTenant(world), large)).status).toBe(202)
  await disconnect()
  await until('memory is available again', async () => (await sendEmail(own, large)).status === 202)
})

test('a large body counts against the memory limit after its caller disconnects, until the body is no longer used', async ({
  world,
}) => {
  const [own, other] = [await createTenant(world), await createTenant(world)]
  const large = { text: 't', attachments: [{ ...FILE, content: 'A'.repeat(12 * MIB) }] }
  await whileLocked(world, lockMinuteLimits(own), async (release) => {
    const waiting = sendEmailsAndDisconnect(other, 2, large, { prefer: 'wait=30' })
    await until(
      'both requests of the other tenant wait',
      async () => (await other.get('/v1/messages')).body.length === 3,
    )
    // Last of all, because a statement waits for a lock for a limited time.
    const written = sendEmailsAndDisconnect(own, 3, large)
    expect((await written.first()).status).toBe(503)
    await until(
      'a large email is being written',
      async () => (await countBlocked(world, 'with requests as')) > 0,
    )
    await written.disconnect()
    await waiting.disconnect()
    await until('the disconnects are noticed', async () => (await sendEmail(other, large)).status === 202)
    // A request that has not started at the disconnect frees its memory at once.
    await until('the bodies of the first tenant still count', async () => {
      const { status, body } = await sendEmail(own, large)
      return status === 503 && (body.error.message as string).startsWith('Too many large bodies')
    })
    await release()
    await until('memory is available again', async () => (await sendEmail(own, large)).status === 202)
  })
})

test('while a large email is written, only messages of its tenant wait', async ({ world }) => {
  const [own, busy, busy_second, other] = [
    await createTenant(world),
    await createTenant(world),
    await createTenant(world),
    await createTenant(world),
  ]
  await whileLocked(world, lockMinuteLimits(own, busy, busy_second), async (release) => {
    const large = sendEmail(own, { text: 't', attachments: [{ ...FILE, content: 'A'.repeat(MIB) }] })
    await until(
      'the large email is being written',
      async () => (await countBlocked(world, 'with requests as')) === 1,
    )
    // These statements are slow. The messages that arrive meanwhile are written together, by the next statements.
    const first = [sendEmail(busy), sendSms(busy_second)]
    await until(
      'the first messages of the busy tenants are being written',
      async () => (await countBlocked(world, 'with requests as')) === 3,
    )
    const small = [sendEmail(own), sendSms(own)]
    const answered = collectResponses([sendEmail(other), sendSms(other)])
    await until('the messages of the other tenant are answered', () => answered.length === 2, 5_000)
    expect(await countBlocked(world, 'with requests as')).toBe(3)
    await release()
    const answers = [...(await Promise.all([large, ...first, ...small])), ...answered]
    expect(answers.map(({ status }) => status)).toEqual(Array(7).fill(202))
  })
})

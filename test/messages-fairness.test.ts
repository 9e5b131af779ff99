// Messages of many callers at once: the memory that they take is bounded, and no tenant's hold up another's.
import { expect, onTestFinished } from 'vitest'
import { createLog } from '#core/log.ts'
import { createClient, freshKey, type Answer, type Client } from '#test/client.ts'
import { MESSAGE_SENDERS } from '#test/messages.ts'
import { startHere } from '#test/parts.ts'
import { until } from '#test/process.ts'
import { testIn, type World } from '#test/world.ts'

const ASYNC = { prefer: 'respond-async' }
const FILE = { filename: 'a.txt', content_type: 'text/plain' }
const MIB = 1024 * 1024

const test = testIn({ parts: ['api'], env: MESSAGE_SENDERS })

type Tenant = Client & { tenant_id: string }
const one = () => ({ idempotency_key: freshKey(), to: [`${freshKey()}@example.com`], subject: 's' })
const email = async (by: Client, fields: object = { text: 't' }) =>
  await by.post('/v1/messages/email', { ...one(), ...fields }, ASYNC)
const sms = async (by: Client) =>
  await by.post('/v1/messages/sms', { idempotency_key: freshKey(), to: '+4915112345678', body: 't' }, ASYNC)
const batch = async (by: Client, count: number, fields: object) =>
  await by.post('/v1/messages/email/batch', {
    messages: Array.from({ length: count }, () => ({ ...one(), ...fields })),
  })

/** A tenant that has sent an email, and has a template `long` of 240,000 bytes. */
async function tenant(world: World): Promise<Tenant> {
  const own = await world.clientOf()
  expect((await email(own)).status).toBe(202)
  const text = `{% for i in (1..4) %}${'€'.repeat(20_000)}{% endfor %}`
  const template = { name: 'long', channel: 'email', subject: 's', text }
  expect((await own.post('/v1/messages/templates', template)).status).toBe(201)
  return own
}
/** Does `work` while `lock` holds what it locks. `release` ends that. */
async function whileLocked(
  world: World,
  lock: (sql: World['sql']) => Promise<unknown>,
  work: (release: () => Promise<void>) => Promise<void>,
): Promise<void> {
  const locked = Promise.withResolvers<void>()
  const over = Promise.withResolvers<void>()
  const held = world.sql.begin(async (tx) => {
    await lock(tx as unknown as World['sql'])
    locked.resolve()
    await over.promise
  })
  await locked.promise
  const release = async () => {
    over.resolve()
    await held
  }
  try {
    await work(release)
  } finally {
    await release()
  }
}
const minutesOf =
  (...tenants: Tenant[]) =>
  (sql: World['sql']) =>
    sql`
      select from message_limits where scope = 'minute' and tenant_id in ${sql(tenants.map(({ tenant_id }) => tenant_id))}
      for update`
/** How many statements with this text wait for a lock. */
async function blocked(world: World, text: string): Promise<number> {
  const rows = await world.sql`
    select from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock' and strpos(query, ${text}) > 0`
  return rows.length
}
const noted = (answers: Promise<Answer>[]) => {
  const answered: Answer[] = []
  answers.forEach((answer) => void answer.then((each) => answered.push(each)))
  return answered
}

/** Sends emails whose caller leaves before the answers. `first`: the first answer all the same. */
function leaving(by: Client, count: number, fields: object, headers = ASYNC) {
  const caller = new AbortController()
  const sent = Array.from({ length: count }, () =>
    fetch(`${by.url}/v1/messages/email`, {
      method: 'POST',
      headers: { authorization: `Bearer ${by.key}`, 'content-type': 'application/json', ...headers },
      body: JSON.stringify({ ...one(), ...fields }),
      signal: caller.signal,
    }),
  )
  const leave = async () => {
    caller.abort()
    await Promise.allSettled(sent)
  }
  return { first: () => Promise.race(sent), leave }
}

test('many emails that are not large each are bounded together too, and keep out no small ones', async ({
  world,
}) => {
  const [own, other] = [await tenant(world), await tenant(world)]
  await whileLocked(world, minutesOf(own), async (release) => {
    const sent = [1, 2, 3].map(() => batch(own, 100, { template: 'long' }))
    const more: Promise<Answer>[] = []
    const refused: Answer[] = []
    await until(
      'there is no room for another',
      () => {
        const another = email(own, { template: 'long' })
        more.push(another)
        void another.then((answer) => refused.push(answer))
        return refused.length > 0
      },
      15_000,
    )
    expect([refused[0]!.status, refused[0]!.body.error.code]).toEqual([503, 'overloaded'])
    const small = email(own)
    expect((await email(other)).status).toBe(202)
    expect((await email(other, { template: 'long' })).status).toBe(202)
    await release()
    const answers = await Promise.all(sent)
    const statuses = answers.flatMap(({ body }) => body.map(({ status }: any) => status) as number[])
    const accepted = statuses.filter((status) => status === 202).length
    expect(statuses.filter((status) => status === 503)).toHaveLength(300 - accepted)
    expect(accepted).toBeLessThanOrEqual((32 * MIB) / 240_000)
    expect((await small).status).toBe(202)
    await Promise.all(more)
  })
}, 180_000)

test('a large batch has room for itself, and reads its template once', async ({ world }) => {
  const own = await tenant(world)
  await whileLocked(
    world,
    (sql) => sql`lock table templates`,
    async (release) => {
      const sent = batch(own, 100, { template: 'long' })
      await until('the template is being read', async () => (await blocked(world, 'from templates')) > 0)
      expect(await blocked(world, 'from templates')).toBe(1)
      await release()
      const { body } = await sent
      expect(body.map(({ status }: any) => status)).toEqual(Array(100).fill(202))
    },
  )
}, 180_000)

test('what a batch repeats takes room too, since its answer shows it', async ({ world }) => {
  const own = await tenant(world)
  const template = {
    name: 'huge',
    channel: 'email',
    subject: 's',
    text: `{% for i in (1..10) %}${'€'.repeat(33_000)}{% endfor %}`,
  }
  expect((await own.post('/v1/messages/templates', template)).status).toBe(201)
  const messages = Array.from({ length: 36 }, () => ({ ...one(), template: 'huge' }))
  const statusesOf = async (some: object[]): Promise<number[]> => {
    const { body } = await own.post('/v1/messages/email/batch', { messages: some })
    return body.map(({ status }: any) => status)
  }
  for (const some of [messages.slice(18), messages.slice(0, 18)])
    expect(await statusesOf(some)).toEqual(Array(18).fill(202))
  const again = await statusesOf(messages)
  expect([202, 503].map((status) => again.filter((each) => each === status).length)).toEqual([33, 3])
}, 180_000)

test('a batch that was accepted whole is answered whole by a process that has not seen it', async ({
  world,
}) => {
  const own = await tenant(world)
  const text = `{% for i in (1..10) %}${'€'.repeat(33_000)}{% endfor %}`
  const template = { name: 'huge', channel: 'email', subject: 's', text }
  expect((await own.post('/v1/messages/templates', template)).status).toBe(201)
  const messages = Array.from({ length: 20 }, () => ({ ...one(), template: 'huge' }))
  const other = await startHere('api', world.env, createLog('silent', 'test'))
  onTestFinished(() => other.close())
  for (const by of [own, createClient(other.url!, own.key)]) {
    const { body } = await by.post('/v1/messages/email/batch', { messages })
    expect(body.map(({ status }: any) => status)).toEqual(Array(20).fill(202))
  }
}, 180_000)

test('what was given takes room already while a template is waited for', async ({ world }) => {
  const own = await tenant(world)
  const given = { template: 'long', attachments: [{ ...FILE, content: 'A'.repeat(12 * MIB) }] }
  await whileLocked(
    world,
    (sql) => sql`lock table templates`,
    async (release) => {
      const sent = [1, 2, 3].map(() => email(own, given))
      const answered = noted(sent)
      await until('one is refused', () => answered.length > 0, 15_000)
      expect(answered.map(({ body }) => body.error.code)).toEqual(['overloaded'])
      await release()
      expect((await Promise.all(sent)).map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([
        202, 202, 503,
      ])
    },
  )
}, 180_000)

test('large bodies of requests that wait for their work take room until their callers have left', async ({
  world,
}) => {
  const own = await tenant(world)
  const large = { text: 't', attachments: [{ ...FILE, content: 'A'.repeat(12 * MIB) }] }
  const { leave } = leaving(own, 2, large, { prefer: 'wait=30' })
  await until('both wait', async () => (await own.get('/v1/messages')).body.length === 3)
  expect(await email(own, large)).toMatchObject({
    status: 503,
    body: { error: { code: 'overloaded', message: expect.stringMatching(/^Too many large bodies/) } },
  })
  expect((await email(own)).status).toBe(202)
  expect((await email(await tenant(world), large)).status).toBe(202)
  await leave()
  await until('there is room again', async () => (await email(own, large)).status === 202)
}, 180_000)

test('a large body takes room also after its caller has left, until it is used no longer', async ({
  world,
}) => {
  const [own, other] = [await tenant(world), await tenant(world)]
  const large = { text: 't', attachments: [{ ...FILE, content: 'A'.repeat(12 * MIB) }] }
  await whileLocked(world, minutesOf(own), async (release) => {
    const written = leaving(own, 3, large)
    expect((await written.first()).status).toBe(503)
    const waiting = leaving(other, 2, large, { prefer: 'wait=30' })
    await until('both of the other wait', async () => (await other.get('/v1/messages')).body.length === 3)
    await written.leave()
    await waiting.leave()
    await until('it is seen that they left', async () => (await email(other, large)).status === 202)
    // One that had not begun when its caller left makes room for one more.
    await until('those of the first still take room', async () => {
      const { status, body } = await email(own, large)
      return status === 503 && (body.error.message as string).startsWith('Too many large bodies')
    })
    await release()
    await until('there is room again', async () => (await email(own, large)).status === 202)
  })
}, 180_000)

test('while a large email is being written only messages of its tenant wait', async ({ world }) => {
  const [own, busy, busy_too, other] = [
    await tenant(world),
    await tenant(world),
    await tenant(world),
    await tenant(world),
  ]
  await whileLocked(world, minutesOf(own, busy, busy_too), async (release) => {
    const large = email(own, { text: 't', attachments: [{ ...FILE, content: 'A'.repeat(MIB) }] })
    await until('it is being written', async () => (await blocked(world, 'with requests as')) === 1)
    // Runs that take long: those who come now share the next ones.
    const first = [email(busy), sms(busy_too)]
    await until('they are, too', async () => (await blocked(world, 'with requests as')) === 3)
    const small = [email(own), sms(own)]
    const answered = noted([email(other), sms(other)])
    await until('the others are answered', () => answered.length === 2, 5_000)
    expect(await blocked(world, 'with requests as')).toBe(3)
    await release()
    const answers = [...(await Promise.all([large, ...first, ...small])), ...answered]
    expect(answers.map(({ status }) => status)).toEqual(Array(7).fill(202))
  })
}, 180_000)

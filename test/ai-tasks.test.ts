// AI tasks through the front door, against the emulator: each kind, each way to fail, cancellation, and a worker that dies.
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { expect, onTestFinished } from 'vitest'
import type { Json } from '#core/db.ts'
import { createVault } from '#core/secrets.ts'
import { aiTaskInputContext } from '#domain/ai-tasks/sealed.ts'
import type { ClaimedJob } from '#domain/jobs/claim.ts'
import { completionCount, storeCompletion, type Completion } from '#emulators/ai/emulator.ts'
import { runAiTask } from '#jobs/ai-tasks.ts'
import { findSchemaViolation } from '#providers/ai/validation.ts'
import type { WorkerContext } from '#workers/context.ts'
import { aiTaskHandlers } from '#workers/handlers/ai-tasks/jobs.ts'
import { freshKey, type Answer, type Client } from '#test/client.ts'
import { createDeployment } from '#test/deployment.ts'
import { eventually } from '#test/payments.ts'
import { testIn, type World } from '#test/world.ts'

const WAIT = { prefer: 'wait=30' }
const LABELS = ['delivery', 'billing', 'other']
const PERSON = {
  type: 'object',
  properties: { name: { type: 'string', default: 'Ada' }, born: { type: 'integer', minimum: 1815 } },
  required: ['name', 'born'],
  additionalProperties: false,
}

const test = testIn()

const generate = (prompt: string) => ({ kind: 'generate', input: { prompt } })
const classify = (text: string, labels = LABELS) => ({ kind: 'classify', input: { text, labels } })
const extract = (text: string, schema: object = PERSON) => ({ kind: 'extract', input: { text, schema } })

async function start(world: World, task: object, headers: Record<string, string> = WAIT): Promise<Answer> {
  return await world.client.post('/v1/ai/tasks', { idempotency_key: freshKey(), ...task }, headers)
}
const look = async (world: World, id: string, client: Client = world.client) =>
  (await client.get(`/v1/ai/tasks/${id}`)).body
const eventsOf = async (world: World, id: string) =>
  (await world.sql`select type, data from events where subject_id = ${id} order by created_at`).map(
    ({ type, data }) => ({ type, data }),
  )
/** The key of the task's call. */
async function keyOf(world: World, id: string): Promise<string> {
  const [job] = await world.sql<{ id: string }[]>`select id from jobs where subject_id = ${id}`
  return `${job!.id}:1`
}

test.for([
  [generate('A haiku about queues.'), { text: 'You said: A haiku about queues.' }],
  [classify('A question about billing.'), { label: 'billing' }],
  [classify('None of these.'), { label: 'delivery' }],
  [extract('Ada was born in 1815.'), { data: { name: 'Ada', born: 1815 } }],
] as const)('the kinds: %# succeeds', async ([task, output], { world }) => {
  const { status, body } = await start(world, { ...task, metadata: { ticket: 17 } })
  expect([status, body]).toMatchObject([
    201,
    {
      kind: task.kind,
      status: 'succeeded',
      output,
      model: 'gpt-5-mini',
      usage: { input_tokens: expect.any(Number), output_tokens: expect.any(Number) },
      failure: null,
      attempts: 1,
      metadata: { ticket: 17 },
    },
  ])
  expect(body.started_at <= body.finished_at).toBe(true)
  expect(body).not.toHaveProperty('input')
  expect(await look(world, body.id)).toEqual(body)
  const events = await eventsOf(world, body.id)
  expect(events.map(({ type }) => type)).toEqual(['ai_task.created', 'ai_task.succeeded'])
  expect(events[1]!.data).toMatchObject({ id: body.id, status: 'succeeded' })
  expect(events[1]!.data).not.toHaveProperty('output')
})

test('without being asked to wait it answers at once, and the model and limit go to the provider', async ({
  world,
}) => {
  const { status, body } = await start(
    world,
    { ...generate('Two words.'), model: 'other-model', max_output_tokens: 50 },
    {},
  )
  expect([status, body]).toMatchObject([
    201,
    {
      status: 'queued',
      model: 'other-model',
      max_output_tokens: 50,
      attempts: 0,
      started_at: null,
      output: null,
    },
  ])
  const done = await eventually(async () => {
    const task = await look(world, body.id)
    expect(task.status).toBe('succeeded')
    return task
  })
  expect(done.model).toBe('other-model')
  expect(await world.provider('ai').effects({ idempotency_key: await keyOf(world, body.id) })).toMatchObject([
    { effect: 'completion', model: 'other-model', format: 'text' },
  ])
})

/** Lets each next attempt of a task begin at once, until its work is over. */
async function drainAtOnce(world: World, id: string): Promise<void> {
  await eventually(async () => {
    const [job] = await world.sql`
      update jobs set run_at = least(run_at, now()) where subject_id = ${id}
      returning finished_at is not null as over`
    expect(job).toEqual({ over: true })
  })
}
const quarterBefore = async (world: World, id: string) =>
  void (await world.sql`
    update ai_tasks set started_at = started_at - interval '15 minutes' where id = ${id}`)

test('trouble at the provider that passes fails no task, however many attempts it takes', async ({
  world,
}) => {
  const mark = freshKey()
  for (const [fault, times] of [
    ['rate_limited_429', 3],
    ['drop_before', 3],
  ] as const)
    await world.provider('ai').fault({ match: { contains: mark }, fault, times })
  const { body } = await start(world, generate(mark), {})
  await drainAtOnce(world, body.id)
  expect(await look(world, body.id)).toMatchObject({ status: 'succeeded', attempts: 7 })
})

test('without an answer in a quarter of an hour and several attempts a task fails', async ({ world }) => {
  const { body } = await start(world, generate('Private words [[500]]'), {})
  const attempted = (least: number) =>
    eventually(async () => {
      await world.sql`update jobs set run_at = least(run_at, now()) where subject_id = ${body.id}`
      const task = await look(world, body.id)
      expect(task.attempts).toBeGreaterThanOrEqual(least)
      expect(task.status).not.toBe('failed')
    })
  await attempted(7)
  await quarterBefore(world, body.id)
  await drainAtOnce(world, body.id)
  const failed = await look(world, body.id)
  expect(failed).toMatchObject({ status: 'failed', output: null, failure: { code: 'ai_error' } })
  expect(failed.failure.message).toContain('15 minutes')
  expect(failed.failure.message).not.toContain('Private')
})

test('an answer that is cut off at its limit fails', async ({ world }) => {
  const { body } = await start(world, { ...generate('A long story.'), max_output_tokens: 1 })
  expect(body).toMatchObject({
    status: 'failed',
    failure: { code: 'ai_invalid_output' },
    model: 'gpt-5-mini',
    usage: { output_tokens: 1 },
  })
})

test('a replay of a task that failed answers it again', async ({ world }) => {
  const task = { idempotency_key: freshKey(), ...generate('[[refuse]]') }
  const first = await start(world, task)
  for (const prefer of ['wait=5', 'respond-async']) {
    const again = await start(world, task, { prefer })
    expect([again.status, again.headers.get('idempotent-replayed'), again.body]).toEqual([
      201,
      'true',
      first.body,
    ])
  }
  const other = await start(world, { ...task, ...generate('Another.') })
  expect([other.status, other.body.error.code]).toEqual([422, 'idempotency_key_reused'])
})

// Side by side: these stories mostly wait for the next attempt.
test.concurrent.for([
  ['[[refuse]]', generate, 'ai_refused', 1],
  ['[[refuse]]', classify, 'ai_refused', 1],
  ['[[garbage]]', generate, 'ai_invalid_output', 1],
  ['[[garbage]]', classify, 'ai_invalid_output', 1],
  ['[[garbage]]', extract, 'ai_invalid_output', 1],
] as const)(
  '%s fails as it says (%#)',
  { timeout: 180_000 },
  async ([trigger, task, code, attempts], { world }) => {
    const text = `Private words ${trigger}`
    const { status, body } = await start(world, task(text))
    const failed = { status: 'failed', output: null, model: 'gpt-5-mini', failure: { code }, attempts }
    expect([status, body]).toMatchObject([201, failed])
    expect(body.failure.message).not.toContain('Private')
    expect(body.finished_at).not.toBeNull()
    expect((await eventsOf(world, body.id)).map(({ type }) => type)).toEqual([
      'ai_task.created',
      'ai_task.failed',
    ])
    const asked = await world.provider('ai').requests({ idempotency_key: await keyOf(world, body.id) })
    expect(asked).toHaveLength(attempts)
  },
)

test.concurrent('a call that is held is shown as running, keeps its lease, and succeeds in its first attempt', async ({
  world,
}) => {
  const mark = freshKey()
  const held = await world.provider('ai').fault({ match: { contains: mark }, fault: 'hold' })
  const { body: queued } = await start(world, generate(mark), {})
  await held.hit()
  expect(await look(world, queued.id)).toMatchObject({ status: 'running', attempts: 1, finished_at: null })
  const listed = (await world.client.get('/v1/ai/tasks?status=running')).body as { id: string }[]
  expect(listed.map(({ id }) => id)).toContain(queued.id)
  // Longer than a lease that nobody renews.
  await eventually(async () => {
    const [job] = await world.sql<{ renewed: boolean }[]>`
      select lease_until > started_at + interval '7 seconds' as renewed from jobs where subject_id = ${queued.id}`
    expect(job).toEqual({ renewed: true })
  })
  await held.release()
  await eventually(async () =>
    expect(await look(world, queued.id)).toMatchObject({ status: 'succeeded', attempts: 1 }),
  )
})

test.concurrent('[[429]] is tried again, and what is slow is awaited', async ({ world }) => {
  const { body } = await start(world, generate('[[429]] [[slow]]'))
  expect(body).toMatchObject({ status: 'succeeded', attempts: 2 })
  const asked = await world.provider('ai').requests({ idempotency_key: await keyOf(world, body.id) })
  expect(asked.map(({ status }) => status)).toEqual([429, 200])
})

test.concurrent.for([
  ['drop_before', 2],
  ['drop_after', 2],
  ['cut_body', 2],
  ['html_503', 2],
  ['empty_200', 2],
  ['string_ok', 2],
  ['conflict_409', 2],
])('after %s the call is simply made again', async ([fault, attempts], { world }) => {
  const mark = freshKey()
  await world.provider('ai').fault({ match: { contains: mark }, fault })
  const { body } = await start(world, generate(mark))
  expect(body).toMatchObject({ status: 'succeeded', attempts })
})

test.concurrent('refused credentials fail it at once', async ({ world }) => {
  const mark = freshKey()
  await world.provider('ai').fault({ match: { contains: mark }, fault: 'refuse_401' })
  const { body } = await start(world, generate(mark))
  expect(body).toMatchObject({ status: 'failed', attempts: 1, failure: { code: 'ai_error' } })
  expect(body.failure.message).toContain('401')
})

test('a task is canceled before its call, which is never made', async ({ world }) => {
  const { sql, tenant_id } = world
  await sql`insert into pauses (queue, tenant_id) values ('ai', ${tenant_id})`
  const { body } = await start(world, generate('Never sent.'), {})
  const key = freshKey()
  const cancel = (idempotency_key: string) =>
    world.client.post(`/v1/ai/tasks/${body.id}/cancel`, { idempotency_key })
  const canceled = await cancel(key)
  expect([canceled.status, canceled.body]).toMatchObject([
    200,
    { status: 'canceled', attempts: 0, output: null },
  ])
  expect(canceled.body.finished_at).not.toBeNull()
  await sql`delete from pauses where queue = 'ai'`
  await world.drain()
  expect(await look(world, body.id)).toEqual(canceled.body)
  expect(await world.provider('ai').requests({ idempotency_key: await keyOf(world, body.id) })).toEqual([])
  const replay = await cancel(key)
  expect([replay.status, replay.headers.get('idempotent-replayed')]).toEqual([200, 'true'])
  const again = await cancel(freshKey())
  expect([again.status, again.body.error]).toMatchObject([
    409,
    { code: 'ai_task_not_cancelable', context: { status: 'canceled' } },
  ])
  expect((await eventsOf(world, body.id)).map(({ type }) => type)).toEqual([
    'ai_task.created',
    'ai_task.canceled',
  ])
})

test('a cancellation during the call closes its connection, and who waits is told', async ({ world }) => {
  const mark = freshKey()
  const held = await world.provider('ai').fault({ match: { contains: mark }, fault: 'hold' })
  const waiting = start(world, generate(mark))
  await held.hit()
  const [task] = (await world.client.get('/v1/ai/tasks?status=running&limit=1')).body
  const canceled = await world.client.post(`/v1/ai/tasks/${task.id}/cancel`)
  expect([canceled.status, canceled.body.status]).toEqual([200, 'canceled'])
  await eventually(async () =>
    expect(
      await world.provider('ai').requests({ idempotency_key: await keyOf(world, task.id) }),
    ).toMatchObject([{ status: 0, refusal: 'the client closed the connection' }]),
  )
  const { status, body } = await waiting
  expect([status, body]).toMatchObject([201, { id: task.id, status: 'canceled', attempts: 1 }])
  await held.remove()
  await world.drain()
  expect((await look(world, task.id)).status).toBe('canceled')
  expect(await world.provider('ai').effects({ idempotency_key: await keyOf(world, task.id) })).toEqual([])
})

test('what a task was asked is sealed while its job is open, and gone when it is over', async ({ world }) => {
  const mark = freshKey()
  const words = `Very private ${mark}`
  const held = await world.provider('ai').fault({ match: { contains: mark }, fault: 'hold' })
  const { body } = await start(world, generate(words), {})
  await held.hit()
  const request = async () =>
    (await world.sql`select request, payload from jobs where subject_id = ${body.id}`)[0]!
  const open = await request()
  expect(open['payload']).toEqual({ ai_task_id: body.id })
  expect(open['request']).toMatchObject({ sealed: { input: expect.any(String) } })
  expect(JSON.stringify(open)).not.toContain('private')
  await held.release()
  await world.drain()
  expect((await request())['request']).toEqual({ model: null, max_output_tokens: null })
})

test('lists are filtered, newest first, page by page; no other tenant sees a task', async ({ world }) => {
  const mine = await world.clientOf({ scopes: ['ai:read', 'ai:write'] })
  const made: string[] = []
  for (const task of [generate('a'), classify('b'), generate('[[refuse]]')]) {
    const body = { idempotency_key: freshKey(), ...task }
    made.unshift((await mine.post('/v1/ai/tasks', body, WAIT)).body.id)
  }
  const listed = async (query = '') => {
    const answer = await mine.get(`/v1/ai/tasks${query}`)
    expect(answer.status).toBe(200)
    return (answer.body as { id: string }[]).map(({ id }) => id)
  }
  expect(await listed()).toEqual(made)
  expect(await listed('?kind=generate')).toEqual([made[0], made[2]])
  expect(await listed('?status=failed')).toEqual([made[0]])
  expect(await listed('?status=queued')).toEqual([])
  const [, middle] = (await mine.get('/v1/ai/tasks')).body
  const at = encodeURIComponent(middle.created_at)
  expect(await listed(`?created_from=${at}`)).toEqual(made.slice(0, 2))
  expect(await listed(`?created_to=${at}`)).toEqual(made.slice(2))
  const page = await mine.get('/v1/ai/tasks?limit=2')
  expect(page.headers.get('link')).toContain('rel="next"')
  expect(await listed(`?limit=2&before=${encodeURIComponent(page.body[1].created_at)}`)).toEqual(
    made.slice(2),
  )

  for (const path of [`/v1/ai/tasks/${made[0]}`])
    expect([
      (await world.client.get(path)).status,
      (await world.client.post(`${path}/cancel`)).status,
    ]).toEqual([404, 404])
  const reader = await world.clientOf({ scopes: ['ai:read'] })
  expect((await reader.post('/v1/ai/tasks', {})).body.error.message).toBe('Missing scope: ai:write')
})

test('lists leave out outputs, and an output that is too long fails its task', async ({ world }) => {
  const mine = await world.clientOf({ scopes: ['ai:read', 'ai:write'] })
  const made = async (length: number) => {
    const schema = { type: 'string', minLength: length, maxLength: length }
    const body = { idempotency_key: freshKey(), ...extract('x', schema) }
    return (await mine.post('/v1/ai/tasks', body, WAIT)).body
  }
  for (let nth = 0; nth < 3; nth++) expect((await made(250_000)).output.data).toHaveLength(250_000)
  expect(await made(270_000)).toMatchObject({
    status: 'failed',
    failure: { code: 'ai_invalid_output', message: 'The answer is longer than 256 KiB.' },
  })
  const { body } = await mine.get('/v1/ai/tasks')
  expect(body.map(({ status, output }: any) => [status, output])).toEqual([
    ['failed', null],
    ['succeeded', null],
    ['succeeded', null],
    ['succeeded', null],
  ])
  expect(JSON.stringify(body).length).toBeLessThan(10_000)
})

test('a number that would lose digits is no output', async ({ world }) => {
  const schema = { type: 'object', properties: { n: { type: 'integer', exclusiveMinimum: 2 ** 53 - 1 } } }
  expect((await start(world, extract('x', schema))).body).toMatchObject({
    status: 'failed',
    output: null,
    failure: {
      code: 'ai_invalid_output',
      message:
        'The answer cannot be stored exactly: Numbers beyond 2^53 - 1 lose digits in JSON: send them as text.',
    },
  })
})

test.for([
  [{ type: 'object', properties: { $id: { type: 'string', default: 'x' } } }, { $id: 'x' }],
  [{ const: { $ref: '#/nowhere' } }, { $ref: '#/nowhere' }],
  [{ enum: [{ pattern: '(' }] }, { pattern: '(' }],
  [{ default: { $async: true }, examples: [{ $anchor: 1 }] }, { $async: true }],
  [{ $defs: { pattern: { const: 1 }, $anchor: true }, $ref: '#/$defs/pattern' }, 1],
  [{ default: {}, patternProperties: { pattern: true }, dependentSchemas: { $ref: true } }, {}],
] as const)(
  'a schema may hold data and names that look like keywords (%#)',
  async ([schema, data], { world }) => {
    expect((await start(world, extract('x', schema))).body).toMatchObject({
      status: 'succeeded',
      output: { data },
    })
  },
)

test.for([
  [{}, 'kind'],
  [{ kind: 'translate', input: {} }, 'kind'],
  [{ kind: 'generate' }, 'input'],
  [{ kind: 'generate', input: { text: 'x' } }, 'input.prompt'],
  [{ kind: 'generate', input: { prompt: '' } }, 'input.prompt'],
  [{ kind: 'generate', input: { prompt: 'x'.repeat(200_001) } }, 'input.prompt'],
  [classify('x', ['one']), 'input.labels'],
  [classify('x', ['one', 'one']), 'input.labels'],
  [
    classify(
      'x',
      Array.from({ length: 51 }, (_, nth) => `l${nth}`),
    ),
    'input.labels',
  ],
  [{ ...generate('x'), max_output_tokens: 0 }, 'max_output_tokens'],
  [{ ...generate('x'), max_output_tokens: 32_769 }, 'max_output_tokens'],
  [{ ...generate('x'), temperature: 1 }, 'temperature'],
  [extract('x', { type: 'nonsense' }), 'input.schema.type', /^must be one of array, .* in a JSON Schema/],
  [extract('x', { properties: { a: 1 } }), 'input.schema.properties.a', /^must be of type object or boolean/],
  [extract('x', { required: 'a' }), 'input.schema.required', /^must be of type array/],
  [extract('x', { $ref: 'https://schemas.example/person' }), 'input.schema.$ref', /into the schema itself/],
  [
    extract('x', { anyOf: [{ $ref: '#/$defs/nobody' }] }),
    'input.schema.anyOf.0.$ref',
    /does not lead to a part/,
  ],
  [extract('x', { $async: true }), 'input.schema'],
  [extract('x', { $id: 'https://schemas.example/person' }), 'input.schema'],
  [extract('x', { type: 'string', pattern: '(' }), 'input.schema.pattern'],
  [extract('x', { patternProperties: { '(': {} } }), 'input.schema.patternProperties.('],
  // Each takes the API a third of a second to read.
  [extract('x', { pattern: '\\p{L}'.repeat(3200) }), 'input.schema'],
  [
    extract('x', { anyOf: Array.from({ length: 20 }, (_, n) => ({ pattern: `[^\\p{L}]${n}` })) }),
    'input.schema',
  ],
  [
    extract('x', { properties: { $id: { $id: 'https://schemas.example/person' } } }),
    'input.schema.properties.$id',
    /^must not use \$id$/,
  ],
  [extract('x', { $ref: '#/default', default: { pattern: '(' } }), 'input.schema.default.pattern'],
  [extract('x', { anyOf: [true, { not: { pattern: '(' } }] }), 'input.schema.anyOf.1.not.pattern'],
  [extract('x', { patternProperties: { '(': true } }), 'input.schema.patternProperties.('],
  [extract('x', { description: 'x'.repeat(17_000) }), 'input.schema', /at most 16 KiB/],
  // Reading this one takes the API several times as long as any other request.
  [extract('x', { allOf: Array.from({ length: 1000 }, () => ({})) }), 'input.schema', /at most 1,000 values/],
  [{ kind: 'extract', input: { text: 'x', schema: true } }, 'input.schema'],
] as [task: object, param: string, reported?: RegExp][])(
  'bad input %# is refused',
  async ([task, param, reported = /./], { world }) => {
    const before = await world.sql`select count(*) from ai_tasks`
    const { status, body } = await start(world, task)
    expect([status, body.error.code, body.error.param]).toEqual([400, 'invalid_request', param])
    expect(body.error.details[0]).toEqual({ param, message: expect.stringMatching(reported) })
    expect(await world.sql`select count(*) from ai_tasks`).toEqual(before)
  },
)

/** Schemas that take for ever to follow: a pattern that backtracks, and parts that double. */
const HOSTILE = {
  'a pattern that backtracks': {
    type: 'string',
    default: `${'a'.repeat(60)}!`,
    pattern: '^(a+)+$',
  },
  'parts that double': {
    $defs: Object.fromEntries(
      Array.from({ length: 40 }, (_, nth) => [
        `d${nth}`,
        nth === 0 ? { type: 'object' } : { allOf: [1, 2].map(() => ({ $ref: `#/$defs/d${nth - 1}` })) },
      ]),
    ),
    default: {},
    $ref: '#/$defs/d39',
  },
}
test.concurrent.for(Object.keys(HOSTILE) as (keyof typeof HOSTILE)[])(
  'a schema with %s fails its task and holds up nothing else',
  async (name, { world }) => {
    const hostile = await start(world, extract('x', HOSTILE[name]), {})
    // The process that validates does other work meanwhile.
    const other = await start(world, generate('Meanwhile.'))
    expect(other.body.status).toBe('succeeded')
    await eventually(async () =>
      expect(await look(world, hostile.body.id)).toMatchObject({
        status: 'failed',
        failure: {
          code: 'ai_invalid_output',
          message: 'It takes too much work to check the answer against the schema.',
        },
      }),
    )
  },
)

test('a tenant whose calls last does not keep another waiting', async ({ world }) => {
  const [mine, other] = await Promise.all([world.clientOf(), world.clientOf()])
  const mark = freshKey()
  const held = await world
    .provider('ai')
    .fault({ match: { contains: mark }, fault: 'hold', times: 1_000_000 })
  const ask = (client: typeof mine, prompt: string, headers = {}) =>
    client.post('/v1/ai/tasks', { idempotency_key: freshKey(), ...generate(prompt) }, headers)
  // More than a worker has slots.
  const asked = await Promise.all(Array.from({ length: 120 }, () => ask(mine, mark)))
  const running = async () => (await mine.get('/v1/ai/tasks?status=running&limit=100')).body.length
  await eventually(async () => expect(await running()).toBe(75))
  // By a bell, and after its first call by a walk.
  const { body } = await ask(other, '[[429]]', WAIT)
  expect(body).toMatchObject({ status: 'succeeded', attempts: 2 })
  expect(await running()).toBe(75)
  await held.remove()
  await eventually(async () =>
    expect((await look(world, asked.at(-1)!.body.id, mine)).status).toBe('succeeded'),
  )
})

test('many tasks whose answers cannot be checked in time do not keep another tenant waiting', async ({
  world,
}) => {
  const [mine, other] = await Promise.all([world.clientOf(), world.clientOf()])
  const ask = (client: typeof mine, task: object, headers = {}) =>
    client.post('/v1/ai/tasks', { idempotency_key: freshKey(), ...task }, headers)
  // No two alike. Within the time of a test: each of them would take a second of one of two threads.
  const schemas = Array.from({ length: 60 }, (_, nth) => ({
    ...HOSTILE['a pattern that backtracks'],
    $comment: `${nth}`,
  }))
  const hostile = await Promise.all(schemas.map((schema) => ask(mine, extract('x', schema))))
  expect((await ask(other, generate('Quick.'), WAIT)).body.status).toBe('succeeded')
  await eventually(
    async () =>
      expect(await look(world, hostile.at(-1)!.body.id, mine)).toMatchObject({
        status: 'failed',
        failure: { message: 'It takes too much work to check the answer against the schema.' },
      }),
    50_000,
  )
}, 180_000)

test('answers are checked by turns of the tenants, until nobody wants them', async () => {
  const end = new AbortController()
  const { default: data, ...schema } = HOSTILE['a pattern that backtracks']
  const done: string[] = []
  const check = async (tenant: string, asked: { schema: object; data: unknown }) => {
    const wrong = await findSchemaViolation(tenant, asked, end.signal)
    done.push(tenant)
    return wrong
  }
  const hostile = Array.from({ length: 6 }, (_, nth) =>
    check('a', { schema: { ...schema, $comment: `${nth}` }, data }),
  )
  expect(await check('b', { schema: { type: 'string' }, data })).toBeNull()
  // Two are checked at a time, and one more may end beside it.
  expect(done.indexOf('b')).toBeLessThanOrEqual(3)
  await hostile[0]
  end.abort(new Error('enough'))
  const ends = await Promise.allSettled(hostile)
  expect(ends.slice(3)).toEqual(
    Array.from({ length: 3 }, () => ({ status: 'rejected', reason: new Error('enough') })),
  )
  // Data that it would take at once; but its schema is known by now, to this tenant only.
  const known = { schema: { ...schema, $comment: '0' }, data: 'a' }
  const { signal } = new AbortController()
  expect(await findSchemaViolation('a', known, signal)).toMatch('too much work')
  expect(await findSchemaViolation('b', known, signal)).toBeNull()
})

test('how busy the machine is does not change what is checked', async () => {
  const busy = Array.from({ length: 8 }, () => new Worker('for (;;);', { eval: true }))
  try {
    await Promise.all(busy.map((each) => once(each, 'online')))
    // Some tenths of a second of a processor, of which there is a part of one.
    const data = Array.from({ length: 3_000 }, (_, nth) => ({ nth }))
    const given = { schema: { type: 'array', uniqueItems: true }, data }
    expect(await findSchemaViolation('busy', given, new AbortController().signal)).toBeNull()
  } finally {
    await Promise.all(busy.map((each) => each.terminate()))
  }
})

test('an attempt that its worker ended is given back, however many failed before', async ({ world }) => {
  const { sql, tenant_id, config } = world
  await sql`insert into pauses (queue, tenant_id) values ('ai', ${tenant_id})`
  const { body } = await start(world, generate('Never sent.'), {})
  await sql`update ai_tasks set started_at = now() - interval '1 hour' where id = ${body.id}`
  const [row] = await sql<{ id: string; name: string; payload: Json; call: object }[]>`
    select id, name, payload, jsonb_build_object('key', key, 'request', request) as call
    from jobs where subject_id = ${body.id}`
  const outcome = { kind: 'ambiguous', reason: 'nobody wants it any more', replayed: false } as const
  const context = {
    sql,
    vault: createVault(config.ENCRYPTION_KEY!),
    ai: { name: 'ai', complete: async () => ({ outcome, model: null, usage: null }) },
  } as unknown as WorkerContext
  const job = {
    ...row!,
    tenant_id,
    failures: 10,
    call: { ...row!.call, lookup_only: false },
  } as unknown as ClaimedJob
  const attempt = async (signal: AbortSignal) => {
    const begun = await aiTaskHandlers[runAiTask.name].attempt(context, job, signal)
    return begun.kind === 'continue' ? await begun.next() : begun
  }
  expect(await attempt(AbortSignal.abort())).toMatchObject({ kind: 'give_back', unsent: true })
  expect(await attempt(new AbortController().signal)).toMatchObject({
    kind: 'failed',
    failure: { code: 'ai_error' },
  })
  await world.client.post(`/v1/ai/tasks/${body.id}/cancel`)
  await sql`delete from pauses where queue = 'ai'`
})

test.concurrent.for<[name: string, changes: object, param: string]>([
  ['no messages', { messages: [] }, 'messages'],
  ['a role that is none', { messages: [{ role: 'buyer', content: 'x' }] }, 'messages.0.role'],
  ['no model', { model: '' }, 'model'],
  ['a parameter that is none', { max_output_tokens: 5 }, 'max_output_tokens'],
  ['two limits of tokens', { max_tokens: 5, max_completion_tokens: 5 }, 'max_tokens'],
  ['no tokens', { max_completion_tokens: 0 }, 'max_completion_tokens'],
  ['too hot', { temperature: 2.1 }, 'temperature'],
  ['five stops', { stop: ['a', 'b', 'c', 'd', 'e'] }, 'stop'],
  [
    '17 metadata',
    { metadata: Object.fromEntries(Array.from({ length: 17 }, (_, n) => [`k${n}`, 'v'])) },
    'metadata',
  ],
  ['a long value', { metadata: { k: 'v'.repeat(513) } }, 'metadata.k'],
  [
    'a name of a schema with a blank',
    { response_format: { type: 'json_schema', json_schema: { name: 'a b', schema: {} } } },
    'response_format.json_schema.name',
  ],
  ['a format that is none', { response_format: { type: 'xml' } }, 'response_format.type'],
])('the emulator refuses a request with %s', async ([, changes, param], { world }) => {
  const { url, api_key } = world.provider('ai')
  const answer = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${api_key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'x' }], ...changes }),
  })
  expect([answer.status, await answer.json()]).toMatchObject([
    400,
    { error: { type: 'invalid_request_error', param } },
  ])
})

test('the emulator keeps the latest completions, and counts all', () => {
  const emulator = { completions: [] as Completion[] }
  for (let seq = 1; seq <= 1_200; seq++) storeCompletion(emulator, { seq } as Completion)
  expect([emulator.completions.length, emulator.completions[0]!.seq, completionCount(emulator)]).toEqual([
    1_000, 201, 1_200,
  ])
})

test('what was stored and is no JSON sets its job aside', async ({ world }) => {
  const { sql, tenant_id } = world
  await sql`insert into pauses (queue, tenant_id) values ('ai', ${tenant_id})`
  const { body } = await start(world, generate('Never sent.'), {})
  const [job] = await sql<{ id: string }[]>`select id from jobs where subject_id = ${body.id}`
  const sealed = createVault(world.config.ENCRYPTION_KEY!).seal('{', aiTaskInputContext(tenant_id, job!.id))
  await sql`
    update jobs set request = jsonb_set(request, '{sealed,input}', to_jsonb(${sealed}::text)) where id = ${job!.id}`
  await sql`delete from pauses where queue = 'ai'`
  await eventually(async () =>
    expect((await sql`select last_error->>'message' as message from jobs where id = ${job!.id}`)[0]).toEqual({
      message: 'the stored input cannot be read',
    }),
  )
})

test(
  'a worker that is killed during a call loses nothing: the call is made again',
  { timeout: 180_000 },
  async () => {
    const deployment = await createDeployment({ queue: 'redis' })
    onTestFinished(() => deployment.close())
    await deployment.startApi()
    const first = await deployment.startWorker()
    const { client, provider, sql } = deployment
    const held = await provider('ai').fault({ fault: 'hold' })
    const task = { idempotency_key: freshKey(), ...generate('Private till the end.') }
    const { body } = await client.post('/v1/ai/tasks', task)
    await held.hit()
    await first.end('SIGKILL')
    await sql`update jobs set lease_until = now() - interval '2 seconds' where subject_id = ${body.id}`
    const second = await deployment.startWorker()
    await eventually(async () =>
      expect((await client.get(`/v1/ai/tasks/${body.id}`)).body).toMatchObject({
        status: 'succeeded',
        attempts: 2,
      }),
    )
    expect(await provider('ai').requests({ path: '/chat/completions$' })).toMatchObject([
      { status: 0, refusal: 'the client closed the connection' },
      { status: 200 },
    ])
    // Credentials that are refused are the operator's to correct.
    await provider('ai').fault({ fault: 'refuse_401' })
    const refused = { idempotency_key: freshKey(), ...generate('Private till the end.') }
    const { body: failed } = await client.post('/v1/ai/tasks', refused, WAIT)
    expect(failed.failure.code).toBe('ai_error')
    const warned = await second.waitForLine('refuses our credentials')
    expect(JSON.parse(warned)).toMatchObject({
      level: 40,
      provider: 'ai',
      msg: 'The AI provider refuses our credentials: check AI_API_KEY',
    })
    expect(deployment.output()).not.toContain('Private')
  },
)

test('what a task answered is erased when it is as old as RETENTION_DAYS says; the task stays', async ({
  world,
}) => {
  const idempotency_key = freshKey()
  const task = { idempotency_key, ...generate('Of Ada.') }
  const [{ body: old }, { body: young }] = await Promise.all([
    start(world, task),
    start(world, generate('Of Grace.')),
  ])
  for (const [{ id }, days] of [
    [old, 90],
    [young, 89],
  ] as const)
    await world.sql`update ai_tasks set finished_at = now() - ${days} * interval '1 day' where id = ${id}`
  await eventually(async () => expect(await look(world, old.id)).toMatchObject({ output: null }))
  const left = await look(world, old.id)
  expect(left).toEqual({ ...old, output: null, finished_at: left.finished_at, updated_at: left.updated_at })
  const replayed = await start(world, task)
  expect([replayed.status, replayed.body]).toEqual([201, left])
  expect(await look(world, young.id)).toMatchObject({ output: { text: 'You said: Of Grace.' } })
})

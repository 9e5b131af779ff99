// AI tasks through the API and the emulator: each kind, each failure, cancellation, and the death of a worker.
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
import { pauseJobs, resumeJobs } from '#test/pauses.ts'
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

async function createTask(
  world: World,
  task: object,
  headers: Record<string, string> = WAIT,
): Promise<Answer> {
  return await world.client.post('/v1/ai/tasks', { idempotency_key: freshKey(), ...task }, headers)
}
const readTask = async (world: World, id: string, client: Client = world.client) =>
  (await client.get(`/v1/ai/tasks/${id}`)).body
const eventsOf = async (world: World, id: string) =>
  (await world.sql`select type, data from events where subject_id = ${id} order by created_at`).map(
    ({ type, data }) => ({ type, data }),
  )
/** The idempotency key of the task's call. */
async function keyOf(world: World, id: string): Promise<string> {
  const [job] = await world.sql<{ id: string }[]>`select id from jobs where resource_id = ${id}`
  return `${job!.id}:1`
}

test.for([
  [generate('A haiku about queues.'), { text: 'You said: A haiku about queues.' }],
  [classify('A question about billing.'), { label: 'billing' }],
  [classify('None of these.'), { label: 'delivery' }],
  [extract('Ada was born in 1815.'), { data: { name: 'Ada', born: 1815 } }],
] as const)('a task of each kind succeeds (%#)', async ([task, output], { world }) => {
  const { status, body } = await createTask(world, { ...task, metadata: { ticket: 17 } })
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
  expect(await readTask(world, body.id)).toEqual(body)
  const events = await eventsOf(world, body.id)
  expect(events.map(({ type }) => type)).toEqual(['ai_task.created', 'ai_task.succeeded'])
  expect(events[1]!.data).toMatchObject({ id: body.id, status: 'succeeded' })
  expect(events[1]!.data).not.toHaveProperty('output')
})

test("a request that does not wait returns a queued task, and the provider receives the task's model and limit", async ({
  world,
}) => {
  // Otherwise a worker may begin the task before the answer is read.
  await pauseJobs(world.sql, { queue: 'ai' })
  const { status, body } = await createTask(
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
  await resumeJobs(world.sql, { queue: 'ai' })
  const done = await eventually(async () => {
    const task = await readTask(world, body.id)
    expect(task.status).toBe('succeeded')
    return task
  })
  expect(done.model).toBe('other-model')
  expect(await world.provider('ai').effects({ idempotency_key: await keyOf(world, body.id) })).toMatchObject([
    { effect: 'completion', model: 'other-model', format: 'text' },
  ])
})

/** Makes each next attempt of a task due at once, until the task's job is finished. */
async function drainWithoutDelays(world: World, id: string): Promise<void> {
  await eventually(async () => {
    const [job] = await world.sql`
      update jobs set run_at = least(run_at, now()) where resource_id = ${id}
      returning finished_at is not null as finished`
    expect(job).toEqual({ finished: true })
  })
}
const moveStartBack = async (world: World, id: string) =>
  void (await world.sql`
    update ai_tasks set started_at = started_at - interval '15 minutes' where id = ${id}`)

test('a task survives any number of temporary faults of the provider', async ({ world }) => {
  const mark = freshKey()
  for (const [fault, times] of [
    ['rate_limited_429', 3],
    ['drop_before', 3],
  ] as const)
    await world.provider('ai').fault({ match: { contains: mark }, fault, times })
  const { body } = await createTask(world, generate(mark), {})
  await drainWithoutDelays(world, body.id)
  expect(await readTask(world, body.id)).toMatchObject({ status: 'succeeded', attempts: 7 })
})

test('a task without an answer fails after 15 minutes and several attempts', async ({ world }) => {
  const { body } = await createTask(world, generate('Private words [[500]]'), {})
  const awaitAttempts = (min_attempts: number) =>
    eventually(async () => {
      await world.sql`update jobs set run_at = least(run_at, now()) where resource_id = ${body.id}`
      const task = await readTask(world, body.id)
      expect(task.attempts).toBeGreaterThanOrEqual(min_attempts)
      expect(task.status).not.toBe('failed')
    })
  await awaitAttempts(7)
  await moveStartBack(world, body.id)
  await drainWithoutDelays(world, body.id)
  const failed = await readTask(world, body.id)
  expect(failed).toMatchObject({ status: 'failed', output: null, failure: { code: 'ai_error' } })
  expect(failed.failure.message).toContain('15 minutes')
  expect(failed.failure.message).not.toContain('Private')
})

test('a task whose answer is truncated at the token limit fails', async ({ world }) => {
  const { body } = await createTask(world, { ...generate('A long story.'), max_output_tokens: 1 })
  expect(body).toMatchObject({
    status: 'failed',
    failure: { code: 'ai_invalid_output' },
    model: 'gpt-5-mini',
    usage: { output_tokens: 1 },
  })
})

test('a replay of the request for a failed task returns the failed task', async ({ world }) => {
  const task = { idempotency_key: freshKey(), ...generate('[[refuse]]') }
  const first = await createTask(world, task)
  for (const prefer of ['wait=5', 'respond-async']) {
    const replay = await createTask(world, task, { prefer })
    expect([replay.status, replay.headers.get('idempotent-replayed'), replay.body]).toEqual([
      201,
      'true',
      first.body,
    ])
  }
  const other = await createTask(world, { ...task, ...generate('Another.') })
  expect([other.status, other.body.error.code]).toEqual([422, 'idempotency_key_reused'])
})

// The tests run concurrently, because they mostly wait for the next attempt.
test.concurrent.for([
  ['[[refuse]]', generate, 'ai_refused', 1],
  ['[[refuse]]', classify, 'ai_refused', 1],
  ['[[garbage]]', generate, 'ai_invalid_output', 1],
  ['[[garbage]]', classify, 'ai_invalid_output', 1],
  ['[[garbage]]', extract, 'ai_invalid_output', 1],
] as const)('a task with %s fails with its code (%#)', async ([trigger, task, code, attempts], { world }) => {
  const text = `Private words ${trigger}`
  const { status, body } = await createTask(world, task(text))
  const failed = { status: 'failed', output: null, model: 'gpt-5-mini', failure: { code }, attempts }
  expect([status, body]).toMatchObject([201, failed])
  expect(body.failure.message).not.toContain('Private')
  expect(body.finished_at).not.toBeNull()
  expect((await eventsOf(world, body.id)).map(({ type }) => type)).toEqual([
    'ai_task.created',
    'ai_task.failed',
  ])
  const requests = await world.provider('ai').requests({ idempotency_key: await keyOf(world, body.id) })
  expect(requests).toHaveLength(attempts)
})

test.concurrent('a task with a slow call is running, renews its lease, and succeeds in its first attempt', async ({
  world,
}) => {
  const mark = freshKey()
  const hold = await world.provider('ai').fault({ match: { contains: mark }, fault: 'hold' })
  const { body: queued } = await createTask(world, generate(mark), {})
  await hold.hit()
  expect(await readTask(world, queued.id)).toMatchObject({
    status: 'running',
    attempts: 1,
    finished_at: null,
  })
  const listed = (await world.client.get('/v1/ai/tasks?status=running')).body as { id: string }[]
  expect(listed.map(({ id }) => id)).toContain(queued.id)
  // Without a renewal, the lease would expire earlier.
  await eventually(async () => {
    const [job] = await world.sql<{ renewed: boolean }[]>`
      select lease_until > started_at + interval '7 seconds' as renewed from jobs where resource_id = ${queued.id}`
    expect(job).toEqual({ renewed: true })
  })
  await hold.release()
  await eventually(async () =>
    expect(await readTask(world, queued.id)).toMatchObject({ status: 'succeeded', attempts: 1 }),
  )
})

test.concurrent('a rate-limited call is retried, and a slow call is awaited', async ({ world }) => {
  const { body } = await createTask(world, generate('[[429]] [[slow]]'))
  expect(body).toMatchObject({ status: 'succeeded', attempts: 2 })
  const requests = await world.provider('ai').requests({ idempotency_key: await keyOf(world, body.id) })
  expect(requests.map(({ status }) => status)).toEqual([429, 200])
})

test.concurrent.for([
  ['drop_before', 2],
  ['drop_after', 2],
  ['cut_body', 2],
  ['html_503', 2],
  ['empty_200', 2],
  ['string_ok', 2],
  ['conflict_409', 2],
])('after %s the call is repeated', async ([fault, attempts], { world }) => {
  const mark = freshKey()
  await world.provider('ai').fault({ match: { contains: mark }, fault })
  const { body } = await createTask(world, generate(mark))
  expect(body).toMatchObject({ status: 'succeeded', attempts })
})

test.concurrent('refused credentials fail a task at once', async ({ world }) => {
  const mark = freshKey()
  await world.provider('ai').fault({ match: { contains: mark }, fault: 'refuse_401' })
  const { body } = await createTask(world, generate(mark))
  expect(body).toMatchObject({ status: 'failed', attempts: 1, failure: { code: 'ai_error' } })
  expect(body.failure.message).toContain('401')
})

test('a task that is canceled before its call makes no call', async ({ world }) => {
  const { sql, tenant_id } = world
  await sql`insert into pauses (queue, tenant_id) values ('ai', ${tenant_id})`
  const { body } = await createTask(world, generate('Never sent.'), {})
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
  expect(await readTask(world, body.id)).toEqual(canceled.body)
  expect(await world.provider('ai').requests({ idempotency_key: await keyOf(world, body.id) })).toEqual([])
  const replay = await cancel(key)
  expect([replay.status, replay.headers.get('idempotent-replayed')]).toEqual([200, 'true'])
  const refused = await cancel(freshKey())
  expect([refused.status, refused.body.error]).toMatchObject([
    409,
    { code: 'ai_task_not_cancelable', context: { status: 'canceled' } },
  ])
  expect((await eventsOf(world, body.id)).map(({ type }) => type)).toEqual([
    'ai_task.created',
    'ai_task.canceled',
  ])
})

test("a cancellation during the call closes the call's connection and answers the waiting client", async ({
  world,
}) => {
  const mark = freshKey()
  const hold = await world.provider('ai').fault({ match: { contains: mark }, fault: 'hold' })
  const waiting = createTask(world, generate(mark))
  await hold.hit()
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
  await hold.remove()
  await world.drain()
  expect((await readTask(world, task.id)).status).toBe('canceled')
  expect(await world.provider('ai').effects({ idempotency_key: await keyOf(world, task.id) })).toEqual([])
})

test('the input of a task is sealed while its job is open, and erased when the job is finished', async ({
  world,
}) => {
  const mark = freshKey()
  const prompt = `Very private ${mark}`
  const hold = await world.provider('ai').fault({ match: { contains: mark }, fault: 'hold' })
  const { body } = await createTask(world, generate(prompt), {})
  await hold.hit()
  const readRequest = async () =>
    (await world.sql`select request, payload from jobs where resource_id = ${body.id}`)[0]!
  const open = await readRequest()
  expect(open['payload']).toEqual({ ai_task_id: body.id })
  expect(open['request']).toMatchObject({ sealed: { input: expect.any(String) } })
  expect(JSON.stringify(open)).not.toContain('private')
  await hold.release()
  await world.drain()
  expect((await readRequest())['request']).toEqual({ model: null, max_output_tokens: null })
})

test('a list is filtered and paged, newest first, and shows only tasks of its own tenant', async ({
  world,
}) => {
  const mine = await world.clientOf({ scopes: ['ai:read', 'ai:write'] })
  const created: string[] = []
  for (const task of [generate('a'), classify('b'), generate('[[refuse]]')]) {
    const body = { idempotency_key: freshKey(), ...task }
    created.unshift((await mine.post('/v1/ai/tasks', body, WAIT)).body.id)
  }
  const listed = async (query = '') => {
    const answer = await mine.get(`/v1/ai/tasks${query}`)
    expect(answer.status).toBe(200)
    return (answer.body as { id: string }[]).map(({ id }) => id)
  }
  expect(await listed()).toEqual(created)
  expect(await listed('?kind=generate')).toEqual([created[0], created[2]])
  expect(await listed('?status=failed')).toEqual([created[0]])
  expect(await listed('?status=queued')).toEqual([])
  const [, middle] = (await mine.get('/v1/ai/tasks')).body
  const at = encodeURIComponent(middle.created_at)
  expect(await listed(`?created_from=${at}`)).toEqual(created.slice(0, 2))
  expect(await listed(`?created_to=${at}`)).toEqual(created.slice(2))
  const page = await mine.get('/v1/ai/tasks?limit=2')
  expect(page.headers.get('link')).toContain('rel="next"')
  expect(await listed(`?limit=2&before=${encodeURIComponent(page.body[1].created_at)}`)).toEqual(
    created.slice(2),
  )

  for (const path of [`/v1/ai/tasks/${created[0]}`])
    expect([
      (await world.client.get(path)).status,
      (await world.client.post(`${path}/cancel`)).status,
    ]).toEqual([404, 404])
  const reader = await world.clientOf({ scopes: ['ai:read'] })
  expect((await reader.post('/v1/ai/tasks', {})).body.error.message).toBe('Missing scope: ai:write')
})

test('lists omit outputs, and a task with an output above the limit fails', async ({ world }) => {
  const mine = await world.clientOf({ scopes: ['ai:read', 'ai:write'] })
  const createWithOutput = async (schema: object) => {
    const body = { idempotency_key: freshKey(), ...extract('x', schema) }
    return (await mine.post('/v1/ai/tasks', body, WAIT)).body
  }
  for (let nth = 0; nth < 3; nth++)
    expect((await createWithOutput({ type: 'string', minLength: 250_000 })).output.data).toHaveLength(250_000)
  // The model cuts off an answer with more characters.
  const bytes = { type: 'array', minItems: 20, items: { const: '\u4E2D'.repeat(5_000) } }
  expect(await createWithOutput(bytes)).toMatchObject({
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

test('a task fails if its output has a number that would lose digits in JSON', async ({ world }) => {
  const schema = { type: 'object', properties: { n: { type: 'integer', exclusiveMinimum: 2 ** 53 - 1 } } }
  expect((await createTask(world, extract('x', schema))).body).toMatchObject({
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
  'a schema may use names that are also keywords, and data that looks like keywords (%#)',
  async ([schema, data], { world }) => {
    expect((await createTask(world, extract('x', schema))).body).toMatchObject({
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
  [extract('x', { $ref: 'https://schemas.example/person' }), 'input.schema.$ref', /of the schema itself/],
  [
    extract('x', { anyOf: [{ $ref: '#/$defs/nobody' }] }),
    'input.schema.anyOf.0.$ref',
    /does not refer to a part/,
  ],
  [extract('x', { $async: true }), 'input.schema'],
  [extract('x', { $id: 'https://schemas.example/person' }), 'input.schema'],
  [extract('x', { type: 'string', pattern: '(' }), 'input.schema.pattern'],
  [extract('x', { patternProperties: { '(': {} } }), 'input.schema.patternProperties.('],
  // The API takes a third of a second to read each of these schemas.
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
  // The API takes several times as long to read this schema as any other request.
  [extract('x', { allOf: Array.from({ length: 1000 }, () => ({})) }), 'input.schema', /at most 1,000 values/],
  [{ kind: 'extract', input: { text: 'x', schema: true } }, 'input.schema'],
] as [task: object, param: string, message?: RegExp][])(
  'invalid input is refused (%#)',
  async ([task, param, message = /./], { world }) => {
    const before = await world.sql`select count(*) from ai_tasks`
    const { status, body } = await createTask(world, task)
    expect([status, body.error.code, body.error.param]).toEqual([400, 'invalid_request', param])
    expect(body.error.details[0]).toEqual({ param, message: expect.stringMatching(message) })
    expect(await world.sql`select count(*) from ai_tasks`).toEqual(before)
  },
)

/** Schemas whose check practically never ends. */
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
  'a task with a schema with %s fails and delays no other task',
  async (name, { world }) => {
    const hostile = await createTask(world, extract('x', HOSTILE[name]), {})
    // The process that validates performs another task in the meantime.
    const other = await createTask(world, generate('Meanwhile.'))
    expect(other.body.status).toBe('succeeded')
    await eventually(async () =>
      expect(await readTask(world, hostile.body.id)).toMatchObject({
        status: 'failed',
        failure: {
          code: 'ai_invalid_output',
          message: 'It takes too much work to check the answer against the schema.',
        },
      }),
    )
  },
)

test('slow calls of one tenant do not delay another tenant', async ({ world }) => {
  const [mine, other] = await Promise.all([world.clientOf(), world.clientOf()])
  const mark = freshKey()
  const hold = await world
    .provider('ai')
    .fault({ match: { contains: mark }, fault: 'hold', times: 1_000_000 })
  const request = (client: typeof mine, prompt: string, headers = {}) =>
    client.post('/v1/ai/tasks', { idempotency_key: freshKey(), ...generate(prompt) }, headers)
  // More tasks than the worker has slots.
  const answers = await Promise.all(Array.from({ length: 120 }, () => request(mine, mark)))
  const running = async () => (await mine.get('/v1/ai/tasks?status=running&limit=100')).body.length
  await eventually(async () => expect(await running()).toBe(75))
  // A wake-up starts the first attempt, a scan the second attempt.
  const { body } = await request(other, '[[429]]', WAIT)
  expect(body).toMatchObject({ status: 'succeeded', attempts: 2 })
  expect(await running()).toBe(75)
  await hold.remove()
  await eventually(async () =>
    expect((await readTask(world, answers.at(-1)!.body.id, mine)).status).toBe('succeeded'),
  )
})

test('many answers whose check exceeds the time limit do not delay another tenant', async ({ world }) => {
  const [mine, other] = await Promise.all([world.clientOf(), world.clientOf()])
  const request = (client: typeof mine, task: object, headers = {}) =>
    client.post('/v1/ai/tasks', { idempotency_key: freshKey(), ...task }, headers)
  // All schemas differ, so each answer is checked separately. A check occupies one of two threads for a second.
  const schemas = Array.from({ length: 16 }, (_, nth) => ({
    ...HOSTILE['a pattern that backtracks'],
    $comment: `${nth}`,
  }))
  const hostile = await Promise.all(schemas.map((schema) => request(mine, extract('x', schema))))
  expect((await request(other, generate('Quick.'), WAIT)).body.status).toBe('succeeded')
  expect((await mine.get('/v1/ai/tasks?status=running')).body.length).toBeGreaterThan(2)
  await eventually(
    async () =>
      expect(await readTask(world, hostile.at(-1)!.body.id, mine)).toMatchObject({
        status: 'failed',
        failure: { message: 'It takes too much work to check the answer against the schema.' },
      }),
    50_000,
  )
})

test('answers are checked round robin by tenant, and an aborted check ends', async () => {
  const end = new AbortController()
  const { default: data, ...schema } = HOSTILE['a pattern that backtracks']
  const checked: string[] = []
  const check = async (tenant: string, input: { schema: object; data: unknown }) => {
    const violation = await findSchemaViolation(tenant, input, end.signal)
    checked.push(tenant)
    return violation
  }
  const hostile = Array.from({ length: 6 }, (_, nth) =>
    check('a', { schema: { ...schema, $comment: `${nth}` }, data }),
  )
  expect(await check('b', { schema: { type: 'string' }, data })).toBeNull()
  // Two checks of tenant a are already running. The check of tenant b begins next, but a third check of tenant a may
  // end before it.
  expect(checked.indexOf('b')).toBeLessThanOrEqual(3)
  await hostile[0]
  end.abort(new Error('enough'))
  const results = await Promise.allSettled(hostile)
  expect(results.slice(3)).toEqual(
    Array.from({ length: 3 }, () => ({ status: 'rejected', reason: new Error('enough') })),
  )
  // The data is simple, but the schema is already recorded as too slow for tenant a.
  const recorded = { schema: { ...schema, $comment: '0' }, data: 'a' }
  const { signal } = new AbortController()
  expect(await findSchemaViolation('a', recorded, signal)).toMatch('too much work')
  expect(await findSchemaViolation('b', recorded, signal)).toBeNull()
})

test('the result of a check does not depend on the load of the machine', async () => {
  const busy = Array.from({ length: 8 }, () => new Worker('for (;;);', { eval: true }))
  try {
    await Promise.all(busy.map((each) => once(each, 'online')))
    // Alone, the check takes some tenths of a second. Here it takes longer, because the workers occupy the CPU.
    const data = Array.from({ length: 3_000 }, (_, nth) => ({ nth }))
    const input = { schema: { type: 'array', uniqueItems: true }, data }
    expect(await findSchemaViolation('busy', input, new AbortController().signal)).toBeNull()
  } finally {
    await Promise.all(busy.map((each) => each.terminate()))
  }
})

test('an attempt that its worker aborts does not fail the task, even after many failed attempts', async ({
  world,
}) => {
  const { sql, tenant_id, config } = world
  await sql`insert into pauses (queue, tenant_id) values ('ai', ${tenant_id})`
  const { body } = await createTask(world, generate('Never sent.'), {})
  await sql`update ai_tasks set started_at = now() - interval '1 hour' where id = ${body.id}`
  const [row] = await sql<{ id: string; name: string; payload: Json; call: object }[]>`
    select id, name, payload, jsonb_build_object('key', key, 'request', request) as call
    from jobs where resource_id = ${body.id}`
  const outcome = { kind: 'ambiguous', reason: 'the call was aborted', replayed: false } as const
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
    const result = await aiTaskHandlers[runAiTask.name].attempt(context, job, signal)
    return result.kind === 'continue' ? await result.next() : result
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
  ['an unknown role', { messages: [{ role: 'buyer', content: 'x' }] }, 'messages.0.role'],
  ['no model', { model: '' }, 'model'],
  ['an unknown parameter', { max_output_tokens: 5 }, 'max_output_tokens'],
  ['two token limits', { max_tokens: 5, max_completion_tokens: 5 }, 'max_tokens'],
  ['a token limit of 0', { max_completion_tokens: 0 }, 'max_completion_tokens'],
  ['a temperature above 2', { temperature: 2.1 }, 'temperature'],
  ['five stop texts', { stop: ['a', 'b', 'c', 'd', 'e'] }, 'stop'],
  [
    '17 entries of metadata',
    { metadata: Object.fromEntries(Array.from({ length: 17 }, (_, n) => [`k${n}`, 'v'])) },
    'metadata',
  ],
  ['a value of metadata above 512 characters', { metadata: { k: 'v'.repeat(513) } }, 'metadata.k'],
  [
    'a blank in the name of a schema',
    { response_format: { type: 'json_schema', json_schema: { name: 'a b', schema: {} } } },
    'response_format.json_schema.name',
  ],
  ['an unknown format', { response_format: { type: 'xml' } }, 'response_format.type'],
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

test('the emulator stores the latest 1,000 completions and counts all completions', () => {
  const emulator = { completions: [] as Completion[] }
  for (let seq = 1; seq <= 1_200; seq++) storeCompletion(emulator, { seq } as Completion)
  expect([emulator.completions.length, emulator.completions[0]!.seq, completionCount(emulator)]).toEqual([
    1_000, 201, 1_200,
  ])
})

test('a stored input that is not JSON parks its job', async ({ world }) => {
  const { sql, tenant_id } = world
  await sql`insert into pauses (queue, tenant_id) values ('ai', ${tenant_id})`
  const { body } = await createTask(world, generate('Never sent.'), {})
  const [job] = await sql<{ id: string }[]>`select id from jobs where resource_id = ${body.id}`
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

test('a task whose worker dies during the call is completed by a repeated call', async () => {
  const deployment = await createDeployment({ queue: 'redis' })
  onTestFinished(() => deployment.close())
  await deployment.startApi()
  const first = await deployment.startWorker()
  const { client, provider, sql } = deployment
  const hold = await provider('ai').fault({ fault: 'hold' })
  const task = { idempotency_key: freshKey(), ...generate('Private till the end.') }
  const { body } = await client.post('/v1/ai/tasks', task)
  await hold.hit()
  await first.end('SIGKILL')
  await sql`update jobs set lease_until = now() - interval '2 seconds' where resource_id = ${body.id}`
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
  // Only an operator can correct refused credentials, so the worker logs a warning.
  await provider('ai').fault({ fault: 'refuse_401' })
  const refused = { idempotency_key: freshKey(), ...generate('Private till the end.') }
  const { body: failed } = await client.post('/v1/ai/tasks', refused, WAIT)
  expect(failed.failure.code).toBe('ai_error')
  const warning = await second.waitForLine('refuses our credentials')
  expect(JSON.parse(warning)).toMatchObject({
    level: 40,
    provider: 'ai',
    msg: 'The AI provider refuses our credentials: check AI_API_KEY',
  })
  expect(deployment.output()).not.toContain('Private')
})

test('the output of a task is erased after RETENTION_DAYS, and the task itself remains', async ({
  world,
}) => {
  const idempotency_key = freshKey()
  const task = { idempotency_key, ...generate('Of Ada.') }
  const [{ body: old }, { body: young }] = await Promise.all([
    createTask(world, task),
    createTask(world, generate('Of Grace.')),
  ])
  for (const [{ id }, days] of [
    [old, 90],
    [young, 89],
  ] as const)
    await world.sql`update ai_tasks set finished_at = now() - ${days} * interval '1 day' where id = ${id}`
  await eventually(async () => expect(await readTask(world, old.id)).toMatchObject({ output: null }))
  const erased = await readTask(world, old.id)
  expect(erased).toEqual({
    ...old,
    output: null,
    finished_at: erased.finished_at,
    updated_at: erased.updated_at,
  })
  const replayed = await createTask(world, task)
  expect([replayed.status, replayed.body]).toEqual([201, erased])
  expect(await readTask(world, young.id)).toMatchObject({ output: { text: 'You said: Of Grace.' } })
})

// A short reproducible run of `npm run fuzz`: the run is clean, and the fuzzer detects each kind of problem.
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { routesOf } from '#test/documentation.ts'
import { createDeployment, type Deployment } from '#test/deployment.ts'
import { newTally, propertiesOf, runRound } from '../fuzz/campaign.ts'
import { flood, FLOODS } from '../fuzz/floods.ts'
import { runScenario } from '../fuzz/scenarios/live.ts'
import { SCENARIO_RESOURCES } from '../fuzz/scenarios/resources.ts'
import { deployedTarget, FUZZED_VARIABLES, type Target } from '../fuzz/target.ts'

const RUNS = 3

let deployment: Deployment
let target: Target

beforeAll(async () => {
  deployment = await createDeployment({
    queue: 'redis',
    webhooks: true,
    env: FUZZED_VARIABLES,
  })
  const worker = await deployment.startWorker()
  const api = await deployment.startApi()
  target = await deployedTarget(deployment, { api, others: [worker] })
})
afterAll(async () => await deployment?.close())

test('no input causes a server error, an undocumented response or a write by a refused request', async () => {
  const tally = newTally()
  expect(await runRound(target, tally, { seed: 17, runs: RUNS, floods: false })).toBeNull()
  expect(tally.requests).toBeGreaterThan(RUNS * routesOf(target.document).length)
  expect(Array.from(tally.statuses.keys())).toEqual(expect.arrayContaining([200, 201, 400, 404, 408]))
})

test('the run fuzzes every operation, notification, scenario and queue', () => {
  const names = routesOf(target.document).map(({ method, path }) => `${method} ${path}`)
  const resources = ['payments', ...SCENARIO_RESOURCES.map(({ name }) => name)]
  expect(propertiesOf(target)).toEqual([
    ...names,
    'requests without an end',
    'POST /stripe',
    'POST /twilio',
    'POST /email',
    ...resources.map((name) => `scenarios of ${name}`),
    ...FLOODS.map(({ name }) => `a flood of ${name}`),
  ])
})

const LINKS = FLOODS.find(({ name }) => name === 'links to a verification')!

test('requests that flood the server with one API key are refused with the name of the full queue, other keys are answered, and disconnected requests leave no work', async () => {
  const { problems, statuses } = await flood(target, LINKS, 1)
  expect(problems).toEqual([])
  expect(statuses).toContain(429)
})

describe('the fuzzer detects', () => {
  const route = 'POST /v1/customers'
  const runChanged = async (changed: Partial<Target>) =>
    await runRound({ ...target, ...changed }, newTally(), { seed: 17, runs: 20, only: route })

  test('a refused request that changes stored data', async () => {
    let reads = 0
    const found = await runChanged({ stored: () => Promise.resolve(String(reads++)) })
    expect(found).toMatchObject({ property: route, seed: 17 })
    expect(found!.problems[0]).toMatch(/^a refused request \(\d+ \w+\) changed stored data$/)
    expect(found!.command).toMatch(/^(?:curl|\(?printf) /)
  })

  test('an undocumented response', async () => {
    const document = structuredClone(target.document)
    delete document.paths['/v1/customers'].post.responses[201]
    expect((await runChanged({ document }))!.problems[0]).toBe('the route documents no 201')
  })

  test('an invalid change of state', async () => {
    const resource = SCENARIO_RESOURCES.find(({ name }) => name === 'top-ups')!
    const next = resource.next
    resource.next = { pending: [] }
    onTestFinished(() => void (resource.next = next))
    const scenario = { parameters: { source: 'src_success' }, moves: [[]], order: [0] }
    const { problems } = await runScenario(target, resource, scenario)
    expect(problems).toEqual(['changed from pending to succeeded'])
  })

  test('a flood that exceeds the memory limit, and a refusal that does not name the full queue', async () => {
    const { problems } = await flood(
      { ...target, memory: () => Promise.resolve(2 ** 31) },
      { ...LINKS, full: /another queue/ },
      1,
    )
    expect(problems).toContain('the API used 2048 MiB of memory')
    expect(problems).toContainEqual(
      expect.stringMatching(/^a refusal does not name the full queue: 429 .*links to this verification/),
    )
  })

  test('an undocumented error code', async () => {
    const document = structuredClone(target.document)
    const responses = document.paths['/v1/customers'].post.responses
    responses[422].description = ''
    const found = await runRound({ ...target, document }, newTally(), { seed: 17, runs: 400, only: route })
    expect(found!.problems[0]).toBe('the route does not document idempotency_key_reused')
  })
})

// The torture's own parts: its patches fit the source files, and its verdicts find each kind of problem.
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { FAULTS } from '../torture/faults/list.ts'
import { connectDatabase } from '#core/pool.ts'
import { createDatabase } from '#test/databases.ts'
import { hasOpenWork, openWork } from '#test/open-work.ts'
import { patchedCopy } from '../torture/copy.ts'
import { NEXT_VERSION } from '../torture/faults/versions.ts'
import { MUTATIONS } from '../torture/mutations/list.ts'
import { planFaults } from '../torture/schedule.ts'
import { checkObservations, observe, type ResourceName, type Observations } from '../torture/observations.ts'
import type { FollowedEvent } from '../torture/events/follower.ts'
import type { Arrival } from '../torture/events/receivers.ts'
import type { Switch } from '../torture/record.ts'
import { judgeDeliveries } from '../torture/verdict/deliveries.ts'
import { judgeFeeds, type FeedEvent } from '../torture/verdict/feeds.ts'
import { doneTwice, DONE_TWICE } from '../torture/verdict/money.ts'
import { judgeMessages, SENT_TWICE, type JudgedMessage } from '../torture/verdict/messages.ts'

const ROOT = fileURLToPath(new URL('../', import.meta.url))

test.each([...MUTATIONS, { name: 'next version', patches: NEXT_VERSION, faults: [] }])(
  'the patches of the torture for "$name" fit the source files',
  async ({ patches, faults }) => {
    const copy = await patchedCopy(ROOT, patches)
    onTestFinished(copy.remove)
    for (const { file, to } of patches) expect(await readFile(join(copy.path, file), 'utf8')).toContain(to)
    for (const name of faults) expect(FAULTS.map((fault) => fault.name)).toContain(name)
  },
)

test('a seed determines the schedule of faults', () => {
  const scheduleOf = (seed: number) => planFaults(FAULTS, seed, 1_500_000)
  expect(scheduleOf(7)).toEqual(scheduleOf(7))
  expect(scheduleOf(7)).not.toEqual(scheduleOf(8))
  expect(new Set(scheduleOf(7).map(({ fault }) => fault)).size).toBe(FAULTS.length)
})

/** Observations of consecutive responses with these states, each to its own request. */
function observationsOf(
  resource: ResourceName,
  ...states: { status: string; decided_by?: string; channel?: string }[]
): Observations {
  const observations: Observations = new Map()
  states.forEach((state, at) => {
    const answer = { status: 200, body: { id: 'one', ...state }, headers: new Headers(), text: '' }
    observe(observations, resource, answer, { api: 1, start: at, end: at + 0.5 })
  })
  return observations
}
const regressions = (...args: Parameters<typeof observationsOf>) =>
  checkObservations(observationsOf(...args)).map(({ before, after }: any) => `${before.state} ${after.state}`)

test('a forward change of status is no problem, and a backward change is reported', () => {
  const [pending, paid, failed] = [{ status: 'pending' }, { status: 'paid' }, { status: 'failed' }]
  expect(regressions('payout', pending, pending, { status: 'processing' }, paid, failed)).toEqual([])
  expect(regressions('payout', paid, pending)).toEqual(['paid pending'])
  expect(regressions('payout', failed, paid, failed)).toEqual(['failed paid'])
  expect(regressions('top_up', { status: 'succeeded' }, failed, { status: 'succeeded' })).toEqual([
    'failed succeeded',
  ])
  const [requires_input, processing] = [{ status: 'requires_input' }, { status: 'processing' }]
  const [approved, rejected] = [{ status: 'approved' }, { status: 'rejected', decided_by: 'manual' }]
  expect(regressions('kyc', requires_input, processing, requires_input, approved, rejected)).toEqual([])
  expect(regressions('kyc', rejected, approved)).toEqual(['rejected_by_hand approved'])
  expect(regressions('kyc', approved, requires_input)).toEqual(['approved requires_input'])
  const statuses = ['scheduled', 'queued', 'sending', 'queued', 'unknown', 'failed', 'sent', 'delivered']
  const steps = statuses.map((status) => ({ status }))
  // A message returns to the queue for its next attempt.
  expect(regressions('message', ...steps.slice(0, 3), ...steps.slice(4))).toEqual([])
  expect(regressions('message', ...steps.slice(2, 4), steps[6]!)).toEqual([])
  expect(regressions('message', steps[6]!, steps[4]!, steps[5]!)).toEqual(['sent unknown'])
  expect(regressions('message', { status: 'canceled' }, steps[2]!)).toEqual(['canceled sending'])
  const [delivered_sms, undelivered_sms] = ['delivered', 'undelivered'].map((status) => ({ status }))
  expect(regressions('message', undelivered_sms!, delivered_sms!, undelivered_sms!)).toEqual([
    'delivered undelivered',
  ])
  const email = (status: string) => ({ status, channel: 'email' })
  expect(regressions('message', email('delivered'), email('undelivered'))).toEqual([])
  expect(regressions('message', email('undelivered'), email('delivered'))).toEqual(['came_back delivered'])
})

const LEFT_AT = '2026-11-28T09:30:00.500Z'

/** The verdict on a message with one departure for each list of recipients. */
function judge(message: Partial<JudgedMessage>, ...sent: string[][]) {
  const departures = sent.map((recipients) => ({ id: 'one', reference: 'SM1', at: LEFT_AT, recipients }))
  const { problems, counts } = judgeMessages([sentMessage(message)], departures)
  return { problems: problems.map(({ problem }) => problem), counts }
}

function sentMessage(message: Partial<JudgedMessage>): JudgedMessage {
  return {
    id: 'one',
    key: 'key',
    channel: 'sms',
    status: 'sent',
    reference: 'SM1',
    failure: null,
    provider_code: null,
    address: '+14155550100',
    reached: 1,
    maybe_reached: 0,
    unknown_at_address: 1,
    open: false,
    ambiguous: false,
    reported: false,
    created_at: '2026-11-28T09:30:00.000Z',
    ...message,
  }
}

test('a message that was not sent exactly once, or that has the outcome of another message, is a problem', () => {
  expect(judge({}, ['a']).problems).toEqual([])
  expect(judge({}).problems).toEqual(['a sent message is lost'])
  const unknown_email = { channel: 'email', status: 'unknown', open: true } as const
  expect(judge(unknown_email, ['a'], ['a']).problems).toEqual([SENT_TWICE])
  expect(judge(unknown_email, ['a', 'b'], ['b']).problems).toEqual([SENT_TWICE])
  expect(judge({ channel: 'email', reached: 2 }, ['a'], ['b']).problems).toEqual([])
  expect(judge({ channel: 'email', maybe_reached: 1 }, ['a'], ['b']).problems).toEqual([])
  expect(judge({ channel: 'email', maybe_reached: 1 }, ['a', 'b', 'c']).problems).toHaveLength(1)
  expect(judge({ status: 'canceled' }, ['a']).problems).toEqual(['a message that must not be sent was sent'])
  const suppressed = { status: 'suppressed' } as const
  expect(judge(suppressed, ['a']).problems).toEqual(['a message that must not be sent was sent'])
  // The row was created after the message had left: it repeats a lost request, and nothing is sent again.
  expect(judge({ ...suppressed, created_at: '2026-11-28T09:30:07.000Z' }, ['a']).problems).toEqual([])
  expect(judge({ status: 'queued' }).problems).toEqual(['an accepted message is lost'])
  expect(judge({ status: 'queued', open: true }).problems).toEqual([])
  expect(judge({ status: 'unknown' }).problems).toEqual(['an unknown message has no open job'])
  expect(judge({ status: 'unknown', open: true }, ['a']).problems).toEqual(['a sent SMS stays unknown'])
  expect(judge({ status: 'unknown', open: true, unknown_at_address: 2 }, ['a']).problems).toEqual([])
  expect(judge({ status: 'failed' }, ['a']).problems).toEqual(['a failed message was sent'])
  // The provider answered 500 and sent the message.
  const failed = judge({ status: 'failed', provider_code: '20500' }, ['a'])
  expect(failed).toMatchObject({ problems: [], counts: { failed_and_sent: 1 } })
  expect(judge({ reference: 'SM2' }, ['a']).problems).toEqual(['a message has another reference'])
  expect(judge({ channel: 'email', reached: 2 }, ['a']).problems).toEqual([
    'a message reached the wrong number of recipients',
  ])
  const ambiguous = judge({ ambiguous: true }, ['a'])
  expect(ambiguous.counts).toMatchObject({ ambiguous: 1, found: 1, reported: 0, unknown: 0 })
  expect(
    judgeMessages([], [{ id: 'two', reference: 'SM3', at: LEFT_AT, recipients: ['a'] }]).problems,
  ).toMatchObject([{ problem: 'an unknown message was sent' }])
})

test('equal messages with ambiguous outcomes may have each other’s references', () => {
  const departures = [1, 2, 3].map((nth) => ({
    id: `${nth}`,
    reference: `SM${nth}`,
    at: LEFT_AT,
    recipients: ['a'],
  }))
  const problemsWith = (changes: Partial<JudgedMessage>) =>
    judgeMessages(
      [
        sentMessage({ id: '1', reference: 'SM3', ambiguous: true }),
        sentMessage({ id: '2', reference: 'SM1', ambiguous: true, ...changes }),
        sentMessage({ id: '3', reference: 'SM2', ambiguous: true }),
      ],
      departures,
    ).problems
  expect(problemsWith({})).toEqual([])
  expect(problemsWith({ ambiguous: false })).toHaveLength(2)
  expect(problemsWith({ address: '+14155550101' })).toHaveLength(2)
  expect(problemsWith({ reference: 'SM3' })).toHaveLength(1)
})

test('open work is listed, and an unknown job counts as open work only when it is due', async () => {
  const { url, drop } = await createDatabase()
  onTestFinished(drop)
  const sql = connectDatabase(url, { max: 1, application_name: 'test' })
  onTestFinished(() => sql.end())
  expect(await openWork(sql)).toEqual([])
  await sql`
    insert into jobs (id, tenant_id, queue, name, payload, max_attempts, run_at, state, attempt, unknown_since)
    select uuidv7(), uuidv7(), 'messages', 'message.send_email', '{}', 5, now() + interval '9 s', 'unknown', 1, now()`
  expect(await openWork(sql)).toEqual([expect.stringMatching(/^1 message.send_email unknown due in \d+ s$/)])
  expect(await hasOpenWork(sql, 15, 0)).toBe(false)
  await sql`update jobs set run_at = now()`
  expect(await hasOpenWork(sql, 15, 0)).toBe(true)
})

test('the responses to concurrent requests may show either state', () => {
  const observations = observationsOf('payout', { status: 'paid' }, { status: 'processing' })
  for (const { seen } of observations.values()) seen[1]!.start = 0.2
  expect(checkObservations(observations)).toEqual([])
})

test('two objects at the processor for one idempotency key are a problem, under different ids here too', () => {
  const created = (effect: string, key: string, sluice_payment_id: string) => ({
    effect,
    amount: 100,
    metadata: { sluice_tenant_id: 'acme', sluice_key: key, sluice_payment_id },
  })
  const once = [
    created('authorize', 'one', '1'),
    created('capture', 'one', '1'),
    created('authorize', 'two', '2'),
  ]
  expect(doneTwice(once)).toEqual([])
  expect(doneTwice([...once, created('authorize', 'one', '3')])).toMatchObject([{ problem: DONE_TWICE }])
})

/** The feed of one tenant: events of one resource with these types, in this order. */
const feedOf = (...types: string[]): FeedEvent[] =>
  types.map((type, index) => ({
    id: `event-${index + 1}`,
    tenant_id: 'acme',
    sequence: index + 1,
    type,
    subject_id: 'one',
    created_at: `2026-01-01T00:00:00.${index + 1}Z`,
  }))
const PAYMENT_EVENTS = feedOf('payment.created', 'payment.authorized', 'payment.captured')

/** The problems of a follower of the feed that sees these events. */
function problemsOfFollower(feed: FeedEvent[], sequences: number[], lost: FollowedEvent[] = []): string[] {
  const seen = sequences.map((sequence) => ({ id: `event-${sequence}`, sequence }))
  const follower = { tenant_id: 'acme', seen, lost, after: () => Math.max(...sequences) }
  return judgeFeeds(feed, [follower]).map(({ problem }) => problem)
}

test('a gap in the feed, a wrong order, and a missed or repeated event are problems', () => {
  const complete = [1, 2, 3]
  expect(problemsOfFollower(PAYMENT_EVENTS, complete)).toEqual([])
  expect(problemsOfFollower(PAYMENT_EVENTS, [1, 3])).toEqual(['a reader of the feed skipped an event'])
  expect(problemsOfFollower(PAYMENT_EVENTS, [1, 2])).toEqual(['a reader of the feed did not reach its end'])
  expect(problemsOfFollower(PAYMENT_EVENTS, [1, 2, 2, 3])).toEqual([
    'a reader of the feed saw an event twice',
  ])
  expect(problemsOfFollower(PAYMENT_EVENTS, [...complete, 4])).toEqual([
    'a reader of the feed saw an unknown event',
  ])
  expect(problemsOfFollower([PAYMENT_EVENTS[0]!, PAYMENT_EVENTS[2]!], [1, 3])).toEqual([
    'the sequences of a tenant have a gap',
  ])
  const [created, ...later] = PAYMENT_EVENTS
  expect(
    problemsOfFollower([created!, ...later.map((event) => ({ ...event, sequence: null }))], [1]),
  ).toEqual(['an event is not in the feed', 'an event is not in the feed'])
  const wrong_order = 'the feed has events in the wrong order'
  expect(problemsOfFollower(feedOf('payment.captured', 'payment.authorized'), [1, 2])).toEqual([wrong_order])
  expect(problemsOfFollower(feedOf('message.sent', 'message.created'), [1, 2])).toEqual([wrong_order])
  const late = PAYMENT_EVENTS.map((event, index) => (index === 1 ? { ...event, created_at: '2025' } : event))
  expect(problemsOfFollower(late, complete)).toEqual([wrong_order])
})

test('a sequence that names another event than before the database went back is a problem', () => {
  const read = [1, 2, 3]
  expect(problemsOfFollower(PAYMENT_EVENTS, read, [{ id: 'lost', sequence: 4 }])).toEqual([])
  expect(problemsOfFollower(PAYMENT_EVENTS, read, [{ id: 'lost', sequence: 3 }])).toEqual([
    'a sequence names two events',
  ])
})

/**
 * The problems of these consecutive arrivals at one endpoint. A negative number is an event that the endpoint rejects.
 */
function problemsOfArrivals(
  numbers: number[],
  {
    statuses = ['delivered', 'delivered', 'delivered'],
    ordered = true,
    switches,
  }: { statuses?: string[]; ordered?: boolean; switches?: Switch[] } = {},
): string[] {
  const endpoint = {
    name: 'here',
    id: 'endpoint',
    tenant_id: 'acme',
    types: ['payment.*'],
    ordered,
    secrets: [],
    verified_from: 0,
  }
  const deliveries = statuses.map((status, index) => {
    const event_id = `event-${index + 1}`
    return { endpoint_id: 'endpoint', event_id, status, attempts: 1, last_error: null }
  })
  const arrivals = numbers.map((number, at): Arrival => {
    const event_id = `event-${Math.abs(number)}`
    return { endpoint: 'here', event_id, at, accepted_at: number > 0 ? at + 0.5 : null }
  })
  const events = [
    ...PAYMENT_EVENTS,
    { ...PAYMENT_EVENTS[0]!, id: 'event-5', sequence: 4, type: 'refund.created' },
  ]
  const problems = judgeDeliveries({ events, endpoints: [endpoint], deliveries, arrivals, switches })
  return problems.map(({ problem }) => problem)
}

test('a lost event, a wrong order at an ordered endpoint, and an event to which the endpoint does not subscribe are problems', () => {
  expect(problemsOfArrivals([1, 2, 3])).toEqual([])
  expect(problemsOfArrivals([-1, -1, 1, 2, 1, 3])).toEqual([])
  expect(problemsOfArrivals([1, -2, 3, 2])).toEqual(['an ordered endpoint was sent a later event first'])
  expect(problemsOfArrivals([1, -2, 3, 2], { ordered: false })).toEqual([])
  // The database lost that it had sent event 3, whose next sequence is another one.
  expect(problemsOfArrivals([1, 3, 2, 3], { switches: [{ since: 0.7, until: 1.2 }] })).toEqual([])
  expect(problemsOfArrivals([1, -2, 2, -3])).toEqual(['an event was lost'])
  expect(problemsOfArrivals([1, 2, -3], { statuses: ['delivered', 'delivered', 'pending'] })).toEqual([
    'a delivery is still pending',
  ])
  expect(problemsOfArrivals([1, 2, -3], { statuses: ['delivered', 'delivered', 'exhausted'] })).toEqual([
    'a delivery has failed',
  ])
  expect(problemsOfArrivals([1, 2], { statuses: ['delivered', 'delivered'] })).toEqual(['an event was lost'])
  expect(problemsOfArrivals([1, 2, 3, 4])).toEqual(['an event arrived without a subscription'])
  expect(problemsOfArrivals([1, 2, 3, 5])).toEqual(['an event arrived without a subscription'])
  expect(judgeDeliveries({ events: PAYMENT_EVENTS, endpoints: [], deliveries: [], arrivals: [] })).toEqual([])
})

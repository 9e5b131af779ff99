// The torture's own parts: what it takes away is there to be taken, and a seed names one schedule.
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
import { MUTATIONS } from '../torture/mutations.ts'
import { planFaults } from '../torture/schedule.ts'
import { checkObservations, observe, type ResourceName, type Observations } from '../torture/observations.ts'
import type { Arrival } from '../torture/events/receivers.ts'
import { judgeDeliveries } from '../torture/verdict/deliveries.ts'
import { judgeFeeds, type FeedEvent } from '../torture/verdict/feeds.ts'
import { judgeMessages, SENT_TWICE, type JudgedMessage } from '../torture/verdict/messages.ts'

const ROOT = fileURLToPath(new URL('../', import.meta.url))

test.each([...MUTATIONS, { name: 'next version', patches: NEXT_VERSION, faults: [] }])(
  'what the torture patches for "$name" is where it looks',
  async ({ patches, faults }) => {
    const copy = await patchedCopy(ROOT, patches)
    onTestFinished(copy.remove)
    for (const { file, to } of patches) expect(await readFile(join(copy.path, file), 'utf8')).toContain(to)
    for (const name of faults) expect(FAULTS.map((fault) => fault.name)).toContain(name)
  },
)

test('a seed names one schedule', () => {
  const names = (seed: number) => planFaults(FAULTS, seed, 1_000_000)
  expect(names(7)).toEqual(names(7))
  expect(names(7)).not.toEqual(names(8))
  expect(new Set(names(7).map(({ fault }) => fault)).size).toBe(FAULTS.length)
})

/** What was shown in answers one after the other, each to a request of the moment before. */
function shown(
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
const backwards = (...args: Parameters<typeof shown>) =>
  checkObservations(shown(...args)).map(({ before, after }: any) => `${before.state} ${after.state}`)

test('what goes forward is no problem, and what goes backwards is found', () => {
  const [pending, paid, failed] = [{ status: 'pending' }, { status: 'paid' }, { status: 'failed' }]
  expect(backwards('payout', pending, pending, { status: 'processing' }, paid, failed)).toEqual([])
  expect(backwards('payout', paid, pending)).toEqual(['paid pending'])
  expect(backwards('payout', failed, paid, failed)).toEqual(['failed paid'])
  expect(backwards('top_up', { status: 'succeeded' }, failed, { status: 'succeeded' })).toEqual([
    'failed succeeded',
  ])
  const [waits, looks] = [{ status: 'requires_input' }, { status: 'processing' }]
  const [approved, rejected] = [{ status: 'approved' }, { status: 'rejected', decided_by: 'manual' }]
  expect(backwards('kyc', waits, looks, waits, approved, rejected)).toEqual([])
  expect(backwards('kyc', rejected, approved)).toEqual(['rejected_by_hand approved'])
  expect(backwards('kyc', approved, waits)).toEqual(['approved requires_input'])
  const statuses = ['scheduled', 'queued', 'sending', 'queued', 'unknown', 'failed', 'sent', 'delivered']
  const steps = statuses.map((status) => ({ status }))
  // It waits for another attempt.
  expect(backwards('message', ...steps.slice(0, 3), ...steps.slice(4))).toEqual([])
  expect(backwards('message', ...steps.slice(2, 4), steps[6]!)).toEqual([])
  expect(backwards('message', steps[6]!, steps[4]!, steps[5]!)).toEqual(['sent unknown'])
  expect(backwards('message', { status: 'canceled' }, steps[2]!)).toEqual(['canceled sending'])
  const [arrived, lost] = ['delivered', 'undelivered'].map((status) => ({ status }))
  expect(backwards('message', lost!, arrived!, lost!)).toEqual(['delivered undelivered'])
  const email = (status: string) => ({ status, channel: 'email' })
  expect(backwards('message', email('delivered'), email('undelivered'))).toEqual([])
  expect(backwards('message', email('undelivered'), email('delivered'))).toEqual(['came_back delivered'])
})

/** A message that is sent, and what left; what the verdict says of both. */
function judged(message: Partial<JudgedMessage>, times: number) {
  const departures = Array.from({ length: times }, () => ({ id: 'one', reference: 'SM1', recipients: 1 }))
  const { problems, counts } = judgeMessages([aMessage(message)], departures)
  return { problems: problems.map(({ problem }) => problem), counts }
}

function aMessage(message: Partial<JudgedMessage>): JudgedMessage {
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
    unknown_at_address: 1,
    open: false,
    ambiguous: false,
    reported: false,
    ...message,
  }
}

test('a message leaves once, and what became of it is known or named', () => {
  expect(judged({}, 1).problems).toEqual([])
  expect(judged({}, 0).problems).toEqual(['a sent message is lost'])
  expect(judged({ channel: 'email', status: 'unknown', open: true }, 2).problems).toEqual([SENT_TWICE])
  expect(judged({ status: 'canceled' }, 1).problems).toEqual(['a message was sent that must not be'])
  expect(judged({ status: 'queued' }, 0).problems).toEqual(['an accepted message is lost'])
  expect(judged({ status: 'queued', open: true }, 0).problems).toEqual([])
  expect(judged({ status: 'unknown' }, 0).problems).toEqual(['an unknown message has no open job'])
  expect(judged({ status: 'unknown', open: true }, 1).problems).toEqual(['a sent SMS stays unknown'])
  expect(judged({ status: 'unknown', open: true, unknown_at_address: 2 }, 1).problems).toEqual([])
  expect(judged({ status: 'failed' }, 1).problems).toEqual(['a failed message was sent'])
  // The provider said 500, and sent it.
  const failed = judged({ status: 'failed', provider_code: '20500' }, 1)
  expect(failed).toMatchObject({ problems: [], counts: { failed_and_sent: 1 } })
  expect(judged({ reference: 'SM2' }, 1).problems).toEqual(['a message has another reference'])
  expect(judged({ channel: 'email', reached: 2 }, 1).problems).toEqual([
    'a message reached another number of recipients',
  ])
  const found = judged({ ambiguous: true }, 1)
  expect(found.counts).toMatchObject({ ambiguous: 1, found: 1, reported: 0, unknown: 0 })
  expect(judgeMessages([], [{ id: 'two', reference: 'SM3', recipients: 1 }]).problems).toMatchObject([
    { problem: 'an unknown message was sent' },
  ])
})

test('of two messages alike, about which nobody knew, each may be known as the other', () => {
  const departures = [1, 2].map((nth) => ({ id: `${nth}`, reference: `SM${nth}`, recipients: 1 }))
  const known = (other: Partial<JudgedMessage>) =>
    judgeMessages(
      [
        aMessage({ id: '1', reference: 'SM2', ambiguous: true }),
        aMessage({ id: '2', reference: 'SM1', ambiguous: true, ...other }),
      ],
      departures,
    ).problems
  expect(known({})).toEqual([])
  expect(known({ ambiguous: false })).toHaveLength(2)
  expect(known({ address: '+14155550101' })).toHaveLength(2)
  expect(known({ reference: 'SM2' })).toHaveLength(1)
})

test('what is still open is named, and what is unknown is not open before it is due', async () => {
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

test('answers to requests that were under way at the same time may show either state', () => {
  const observations = shown('payout', { status: 'paid' }, { status: 'processing' })
  for (const { seen } of observations.values()) seen[1]!.start = 0.2
  expect(checkObservations(observations)).toEqual([])
})

/** The feed of one tenant: types of what happened to one thing, in this order. */
const feedOf = (...types: string[]): FeedEvent[] =>
  types.map((type, index) => ({
    id: `event-${index + 1}`,
    tenant_id: 'acme',
    sequence: index + 1,
    type,
    subject_id: 'one',
    created_at: `2026-01-01T00:00:00.${index + 1}Z`,
  }))
const LIFE = feedOf('payment.created', 'payment.authorized', 'payment.captured')

/** What the verdict says when somebody follows the feed and sees these of its events. */
function followed(feed: FeedEvent[], sequences: number[]): string[] {
  const seen = sequences.map((sequence) => ({ id: `event-${sequence}`, sequence }))
  const follower = { tenant_id: 'acme', seen, after: () => Math.max(...sequences) }
  return judgeFeeds(feed, [follower]).map(({ problem }) => problem)
}

test('a feed has no gap, tells things in their order, and whoever follows it misses nothing', () => {
  const all = [1, 2, 3]
  expect(followed(LIFE, all)).toEqual([])
  expect(followed(LIFE, [1, 3])).toEqual(['a reader of the feed skipped an event'])
  expect(followed(LIFE, [1, 2])).toEqual(['a reader of the feed did not reach its end'])
  expect(followed(LIFE, [1, 2, 2, 3])).toEqual(['a reader of the feed saw an event twice'])
  expect(followed(LIFE, [...all, 4])).toEqual(['a reader of the feed saw an unknown event'])
  expect(followed([LIFE[0]!, LIFE[2]!], [1, 3])).toEqual(['the sequences of a tenant have a gap'])
  const [created, ...later] = LIFE
  expect(followed([created!, ...later.map((event) => ({ ...event, sequence: null }))], [1])).toEqual([
    'an event is not in the feed',
    'an event is not in the feed',
  ])
  const otherwise = 'the feed has events in another order'
  expect(followed(feedOf('payment.captured', 'payment.authorized'), [1, 2])).toEqual([otherwise])
  expect(followed(feedOf('message.sent', 'message.created'), [1, 2])).toEqual([otherwise])
  const late = LIFE.map((event, index) => (index === 1 ? { ...event, created_at: '2025' } : event))
  expect(followed(late, all)).toEqual([otherwise])
})

/** What the verdict says when these came to one endpoint, one after the other; a number below 0 is not taken. */
function delivered(
  came: number[],
  { statuses = ['delivered', 'delivered', 'delivered'], ordered = true } = {},
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
  const arrivals = came.map((number, at): Arrival => {
    const event_id = `event-${Math.abs(number)}`
    return { endpoint: 'here', event_id, at, accepted_at: number > 0 ? at + 0.5 : null }
  })
  const events = [...LIFE, { ...LIFE[0]!, id: 'event-5', sequence: 4, type: 'refund.created' }]
  const problems = judgeDeliveries({ events, endpoints: [endpoint], deliveries, arrivals })
  return problems.map(({ problem }) => problem)
}

test('an event arrives until it is taken, and at an ordered endpoint before the next one', () => {
  expect(delivered([1, 2, 3])).toEqual([])
  expect(delivered([-1, -1, 1, 2, 1, 3])).toEqual([])
  expect(delivered([1, -2, 3, 2])).toEqual(['an ordered endpoint was sent a later event first'])
  expect(delivered([1, -2, 3, 2], { ordered: false })).toEqual([])
  expect(delivered([1, -2, 2, -3])).toEqual(['an event was lost'])
  expect(delivered([1, 2, -3], { statuses: ['delivered', 'delivered', 'pending'] })).toEqual([
    'a delivery is still pending',
  ])
  expect(delivered([1, 2, -3], { statuses: ['delivered', 'delivered', 'exhausted'] })).toEqual([
    'a delivery has failed',
  ])
  expect(delivered([1, 2], { statuses: ['delivered', 'delivered'] })).toEqual(['an event was lost'])
  expect(delivered([1, 2, 3, 4])).toEqual(['an event arrived without a subscription'])
  expect(delivered([1, 2, 3, 5])).toEqual(['an event arrived without a subscription'])
  expect(judgeDeliveries({ events: LIFE, endpoints: [], deliveries: [], arrivals: [] })).toEqual([])
})

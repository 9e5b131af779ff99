// The torture's own parts: what it takes away is there to be taken, and a seed names one schedule.
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { FAULTS } from '../torture/faults/list.ts'
import { patchedCopy } from '../torture/copy.ts'
import { NEXT_VERSION } from '../torture/faults/versions.ts'
import { MUTATIONS } from '../torture/mutations.ts'
import { plan } from '../torture/schedule.ts'
import { checkSightings, sight, type Noun, type Sightings } from '../torture/sightings.ts'
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
  const names = (seed: number) => plan(FAULTS, seed, 1_000_000)
  expect(names(7)).toEqual(names(7))
  expect(names(7)).not.toEqual(names(8))
  expect(new Set(names(7).map(({ fault }) => fault)).size).toBe(FAULTS.length)
})

/** What was shown in answers one after the other, each to a request of the moment before. */
function shown(
  noun: Noun,
  ...states: { status: string; decided_by?: string; channel?: string }[]
): Sightings {
  const sightings: Sightings = new Map()
  states.forEach((state, at) => {
    const answer = { status: 200, body: { id: 'one', ...state }, headers: new Headers(), text: '' }
    sight(sightings, noun, answer, { api: 1, start: at, end: at + 0.5 })
  })
  return sightings
}
const backwards = (...args: Parameters<typeof shown>) =>
  checkSightings(shown(...args)).map(({ before, after }: any) => `${before.state} ${after.state}`)

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
  const sent: JudgedMessage = {
    id: 'one',
    key: 'key',
    channel: 'sms',
    status: 'sent',
    reference: 'SM1',
    failure: null,
    provider_code: null,
    reached: 1,
    unknown_there: 1,
    open: false,
    ambiguous: false,
    told: false,
    ...message,
  }
  const departures = Array.from({ length: times }, () => ({ id: 'one', reference: 'SM1', recipients: 1 }))
  const { problems, counts } = judgeMessages([sent], departures)
  return { problems: problems.map(({ problem }) => problem), counts }
}

test('a message leaves once, and what became of it is known or named', () => {
  expect(judged({}, 1).problems).toEqual([])
  expect(judged({}, 0).problems).toEqual(['a message that was sent is lost'])
  expect(judged({ channel: 'email', status: 'unknown', open: true }, 2).problems).toEqual([SENT_TWICE])
  expect(judged({ status: 'canceled' }, 1).problems).toEqual(['a message left that never should have'])
  expect(judged({ status: 'queued' }, 0).problems).toEqual(['an accepted message is lost'])
  expect(judged({ status: 'queued', open: true }, 0).problems).toEqual([])
  expect(judged({ status: 'unknown' }, 0).problems).toEqual(['an unknown message is left lying'])
  expect(judged({ status: 'unknown', open: true }, 1).problems).toEqual([
    'an SMS that was sent stays unknown',
  ])
  expect(judged({ status: 'unknown', open: true, unknown_there: 2 }, 1).problems).toEqual([])
  expect(judged({ status: 'failed' }, 1).problems).toEqual(['a message that failed was sent'])
  // The provider said 500, and sent it.
  const failed = judged({ status: 'failed', provider_code: '20500' }, 1)
  expect(failed).toMatchObject({ problems: [], counts: { failed_and_sent: 1 } })
  expect(judged({ reference: 'SM2' }, 1).problems).toEqual(['a message is known by another reference'])
  expect(judged({ channel: 'email', reached: 2 }, 1).problems).toEqual([
    'a message reached others than it says',
  ])
  const found = judged({ ambiguous: true }, 1)
  expect(found.counts).toMatchObject({ ambiguous: 1, found: 1, told: 0, unknown: 0 })
  expect(judgeMessages([], [{ id: 'two', reference: 'SM3', recipients: 1 }]).problems).toMatchObject([
    { problem: 'a message left of which nothing is known' },
  ])
})

test('answers to requests that were under way at the same time may show either state', () => {
  const sightings = shown('payout', { status: 'paid' }, { status: 'processing' })
  for (const { seen } of sightings.values()) seen[1]!.start = 0.2
  expect(checkSightings(sightings)).toEqual([])
})

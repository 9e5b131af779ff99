// Tests the axis of timelines and the poll interval of the pages.
import { expect, test } from 'vitest'
import { JOB_NAMES } from '#jobs/index.ts'
import { humanize } from '../src/dashboard/web/kit/statuses.ts'
import { pollInterval } from '../src/dashboard/web/poll-interval.ts'
import { jobText } from '../src/dashboard/web/payments/texts.ts'
import { formatOffset } from '../src/dashboard/web/timeline/offset.ts'
import { PAYOUT_TEXTS, TOP_UP_TEXTS, VERIFICATION_TEXTS } from '../src/dashboard/web/timeline/row-texts.ts'
import { labelsOf, placeBars } from '../src/dashboard/web/timeline/waterfall.ts'

/** Resources whose jobs are not described in sentences in a timeline. */
const WITHOUT_SENTENCES = ['ai_task', 'message', 'notification', 'webhook_endpoint']

test('exactly the job names of resources with a timeline have texts', () => {
  const listed = JOB_NAMES.filter((name) => !WITHOUT_SENTENCES.includes(name.split('.')[0]!))
  const of_rows = [PAYOUT_TEXTS, TOP_UP_TEXTS, VERIFICATION_TEXTS].flatMap(({ jobs }) => Object.keys(jobs))
  const of_payments = JOB_NAMES.filter((name) => jobText(name, 'done', '') !== humanize(name))
  expect([...of_rows, ...of_payments].toSorted()).toEqual(listed.toSorted())
})

const START = Date.parse('2026-11-20T10:15:30.000Z')
const at = (ms: number) => new Date(START + ms).toISOString()
const entry = (from: number, to = from) => ({ at: at(from), ended_at: at(to) })

test('the length of a bar is proportional to its duration', () => {
  const { bars, breaks, ticks } = placeBars([entry(0), entry(1000, 1293), entry(5000)])
  expect(breaks).toEqual([])
  expect(bars[1]!.width).toBeCloseTo(0.293 / 5)
  expect(bars[1]!.left).toBeCloseTo(0.2)
  expect(ticks.map(({ ms }) => ms)).toEqual([0, 5000])
})

test('the axis of a timeline marks omitted time, and all bars have one scale', () => {
  const day = 86_400_000
  const { bars, breaks, ticks } = placeBars([entry(0, 100), entry(4200, 4300), entry(day, day + 200)])
  expect(breaks.map(({ ms }) => ms)).toEqual([4100, day - 4300])
  expect(bars.map(({ gap_ms }) => gap_ms)).toEqual([0, 4100, day - 4300])
  expect(bars[2]!.width / bars[0]!.width).toBeCloseTo(2)
  expect(ticks[0]!.ms).toBe(0)
  expect(ticks.at(-1)!.ms).toBe(day + 200)
})

test('labels of the axis do not overlap at any width', () => {
  const hour = 3_600_000
  const attempts = [0, 698, 6032, 360_000, hour / 2, 2 * hour, 10 * hour, 48 * hour]
  const { ticks, breaks } = placeBars(attempts.map((from) => entry(from, from + 20)))
  expect(breaks.length).toBeGreaterThan(4)
  for (const width of [60, 130, 200, 400, 900]) {
    const labels = labelsOf(ticks, width, (ms) => `+${ms} ms`)
    const spans = labels.map(({ left, text, is_last }) => {
      const from = is_last ? width - text.length * 6.5 : left * width
      return { from, to: from + text.length * 6.5 }
    })
    expect(labels.at(-1)).toMatchObject({ is_last: true, text: `+${48 * hour + 20} ms` })
    for (const [at, { from }] of spans.entries())
      expect(from, `${width} px`).toBeGreaterThanOrEqual(spans[at - 1]?.to ?? -100)
  }
  expect(labelsOf(ticks, 900, String).length).toBeGreaterThan(3)
})

test('moments that are close together have different offsets, even long after the first moment', () => {
  const offsets = [0, 24, 4203, 4227, 192_000, 100_000_000].map((ms) => formatOffset(at(0), at(ms)))
  expect(offsets).toEqual(['+0 ms', '+24 ms', '+4.203 s', '+4.227 s', '+3 min 12 s', '+1 d 3 h'])
})

test('the poll interval grows while requests fail, and is one second after a success', () => {
  const failedFor = (ms: number) =>
    pollInterval(1000, { status: 'error', dataUpdatedAt: START, errorUpdatedAt: START + ms })
  expect([500, 4000, 9000, 600_000].map(failedFor)).toEqual([1000, 4000, 9000, 30_000])
  expect(pollInterval(1000, { status: 'success', dataUpdatedAt: START, errorUpdatedAt: 0 })).toBe(1000)
})

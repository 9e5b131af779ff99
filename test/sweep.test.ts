// Which scans of a worker are full ones.
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import type { DueJobs, QueueScan } from '#domain/jobs/claimable.ts'
import { startSweep } from '../src/workers/sweep.ts'

const NONE: Omit<DueJobs, 'queue'> = { ids: [], overdue: 0, others: 0, after: null }
type Scan = { queues: string[]; is_full: boolean; is_recent: boolean }

type Part = { text: string; values: unknown[] }

/** A connection whose scans are answered by `scan`. Only a full scan reads leases. */
function connectionOf(scan: (scanned: QueueScan[], kind: Omit<Scan, 'queues'>) => Promise<DueJobs[]>) {
  const textOf = ({ text, values }: Part): string =>
    text + values.map((value) => (isPart(value) ? textOf(value) : '')).join(' ')
  const tagged = (strings: TemplateStringsArray, ...values: unknown[]) => {
    const part: Part = { text: strings.join(' '), values }
    if (!part.text.includes('with recursive visit as')) return part
    const { scans } = values.find((value) => hasScans(value)) as { scans: QueueScan[] }
    const text = textOf(part)
    return scan(scans, {
      is_full: text.includes('lease_until <= now()'),
      is_recent: /> now\(\) - +\* interval '1 second'/.test(text),
    })
  }
  return Object.assign(tagged, {
    json: (scans: QueueScan[]) => ({ scans }),
    unsafe: (text: string): Part => ({ text, values: [] }),
  })
}

function isPart(value: unknown): value is Part {
  return typeof value === 'object' && value !== null && 'text' in value
}

function hasScans(value: unknown): boolean {
  return typeof value === 'object' && value !== null && 'scans' in value
}

/** Runs scans until `until` returns true. `answer`: the jobs of a queue that a scan finds. */
async function scansUntil(
  queues: string[],
  {
    room = () => 20,
    answer = () => NONE,
    takes_ms = () => 0,
    until,
  }: {
    room?: (queue: string) => number
    answer?: (queue: string, is_full: boolean, nth: number) => Omit<DueJobs, 'queue'>
    takes_ms?: (scan: Scan) => number
    until: (scans: Scan[]) => boolean
  },
): Promise<Scan[]> {
  const scans: Scan[] = []
  const done = Promise.withResolvers<void>()
  const sql = connectionOf(async (scanned, { is_full, is_recent }) => {
    const scan = { queues: scanned.map(({ queue }) => queue), is_full, is_recent }
    const nth = scans.push(scan)
    if (until(scans)) done.resolve()
    if (takes_ms(scan) > 0) await sleep(takes_ms(scan))
    return scanned.map(({ queue }) => ({ queue, ...answer(queue, is_full, nth) }))
  })
  const performer = {
    room,
    shares: { remainingQuota: () => undefined },
    idleFor: () => 0,
    databaseFailedAt: () => -Infinity,
    onFirstJob: () => {},
    perform: () => Promise.resolve(),
  }
  const loop = startSweep(
    { sql, log: { warn: () => {} }, database: { isCurrent: () => true, isHeld: () => false } } as never,
    {
      queue: { isDown: () => false },
      queues,
      performer,
      concurrencyOf: () => 20,
      watchdog: { missed: () => {} },
    } as never,
  )
  await done.promise
  await loop.close()
  return scans
}

/** Resolves with the scans when this many full ones have been made. */
const untilFull = (count: number) => (scans: Scan[]) =>
  scans.filter(({ is_full }) => is_full).length === count

test('between two full scans, only jobs without a wake-up are looked for', async () => {
  const scans = await scansUntil(['payments'], { until: untilFull(2) })
  expect(scans.length).toBeGreaterThan(3)
  expect(scans.slice(0, 2).map(({ is_full }) => is_full)).toEqual([true, false])
})

test('after two slow full scans, other full scans read only recent jobs until it is due again', async () => {
  const scans = await scansUntil(['payments'], {
    takes_ms: ({ is_full, is_recent }) => (is_full && !is_recent ? 150 : 0),
    until: (made) => made.filter(({ is_full, is_recent }) => is_full && !is_recent).length === 3,
  })
  const full = scans.filter(({ is_full }) => is_full).map(({ is_recent }) => is_recent)
  // The pause is 3 s, and a full scan is due every half second.
  expect(full.length).toBeGreaterThan(5)
  expect(full).toEqual([false, false, ...full.slice(3).map(() => true), false])
})

test('while full scans find jobs that no other scan finds, such as those that waited since a switch, all scans are full', async () => {
  const scans = await scansUntil(['payouts'], {
    answer: (_queue, is_full, nth) => (is_full && nth < 20 ? { ...NONE, ids: ['job'], others: 1 } : NONE),
    until: (made) => made.length === 21,
  })
  expect(scans.map(({ is_full }) => is_full)).toEqual([...Array.from({ length: 20 }, () => true), false])
})

test('a round through many tenants that takes several full scans is not interrupted', async () => {
  const scans = await scansUntil(['payments'], {
    answer: (_queue, _is_full, nth) => ({ ...NONE, after: nth < 8 ? 'tenant' : null }),
    until: (made) => made.length === 9,
  })
  expect(scans.map(({ is_full }) => is_full)).toEqual([...Array.from({ length: 8 }, () => true), false])
})

test('a queue without a free slot at a full scan is scanned in full as soon as it has one', async () => {
  let free = 0
  const scans = await scansUntil(['payments', 'payouts'], {
    room: (queue) => (queue === 'payouts' ? free : 20),
    answer(_queue, _is_full, nth) {
      if (nth === 3) free = 20
      return NONE
    },
    until: (made) => made.length === 4,
  })
  expect(scans).toEqual([
    { queues: ['payments'], is_full: true, is_recent: false },
    { queues: ['payments'], is_full: false, is_recent: false },
    { queues: ['payments'], is_full: false, is_recent: false },
    { queues: ['payments', 'payouts'], is_full: true, is_recent: false },
  ])
})

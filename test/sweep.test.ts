// Which scans of a worker are full ones.
import { afterEach, expect, test, vi } from 'vitest'
import { findDue, type DueJobs, type QueueScan } from '#domain/jobs/claimable.ts'
import { startSweep } from '../src/workers/sweep.ts'

vi.mock('#domain/jobs/claimable.ts', () => ({ findDue: vi.fn<typeof findDue>() }))

const NONE: Omit<DueJobs, 'queue'> = { ids: [], overdue: 0, others: 0, after: null }
type Scan = { queues: string[]; is_full: boolean }

afterEach(() => vi.mocked(findDue).mockReset())

/** Runs scans until `until` returns true. `answer`: the jobs of a queue that a scan finds. */
async function scansUntil(
  queues: string[],
  {
    room = () => 20,
    answer = () => NONE,
    until,
  }: {
    room?: (queue: string) => number
    answer?: (queue: string, is_full: boolean, nth: number) => Omit<DueJobs, 'queue'>
    until: (scans: Scan[]) => boolean
  },
): Promise<Scan[]> {
  const scans: Scan[] = []
  const done = Promise.withResolvers<void>()
  vi.mocked(findDue).mockImplementation((_sql, scanned: QueueScan[], { without_wakeup = false }) => {
    const nth = scans.push({ queues: scanned.map(({ queue }) => queue), is_full: !without_wakeup })
    if (until(scans)) done.resolve()
    return Promise.resolve(scanned.map(({ queue }) => ({ queue, ...answer(queue, !without_wakeup, nth) })))
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
    { log: { warn: () => {} }, database: { isCurrent: () => true, isHeld: () => false } } as never,
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
    { queues: ['payments'], is_full: true },
    { queues: ['payments'], is_full: false },
    { queues: ['payments'], is_full: false },
    { queues: ['payments', 'payouts'], is_full: true },
  ])
})

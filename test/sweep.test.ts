// Which jobs the scans of a worker look for.
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { metrics } from '#core/metrics.ts'
import type { DueJobs, QueueScan } from '#domain/jobs/claimable.ts'
import { fakeConnection, readsRecentRows } from '#test/fake-connection.ts'
import { startSweep } from '#workers/sweep.ts'

// No pause here is as long as a tick, which other files share.
beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] }))
afterEach(() => void vi.useRealTimers())

const NONE: Omit<DueJobs, 'queue'> = { ids: [], overdue: 0, others: 0, after: null }
/** `after`: where the scan begins in the first of its queues. */
type Scan = {
  queues: string[]
  after: string | null
  is_full: boolean
  is_recent: boolean
  leaves_lapsed: boolean
  at_ms: number
}

/** Runs scans until `until` returns true. `answer`: the jobs of a queue that a scan finds, or its error. */
async function scansUntil(
  queues: string[],
  {
    room = () => 20,
    answer = () => NONE,
    takes_ms = () => 0,
    isDown = () => false,
    isHeld = () => false,
    perform = () => {},
    until,
  }: {
    room?: (queue: string) => number
    answer?: (queue: string, is_full: boolean, nth: number) => Omit<DueJobs, 'queue'> | Error
    takes_ms?: (scan: Scan, nth: number) => number
    isDown?: () => boolean
    isHeld?: () => boolean
    perform?: (id: string) => void
    until: (scans: Scan[]) => boolean
  },
): Promise<Scan[]> {
  const scans: Scan[] = []
  let leaves_lapsed = false
  const sql = fakeConnection((text, values) => {
    // The condition is part of the statement, and comes first.
    if (text.includes("lease_until > now() - interval '1 minute'")) leaves_lapsed ||= values.includes(true)
    if (!text.includes('with recursive visit as')) return undefined
    const scanned = values.find((value) => Array.isArray(value)) as QueueScan[]
    const left = leaves_lapsed
    leaves_lapsed = false
    return scan(scanned, {
      // Only a full scan reads leases.
      is_full: text.includes('lease_until <= now()'),
      is_recent: readsRecentRows(text),
      leaves_lapsed: left,
    })
  })
  async function scan(
    scanned: QueueScan[],
    kind: Pick<Scan, 'is_full' | 'is_recent' | 'leaves_lapsed'>,
  ): Promise<DueJobs[]> {
    const { after } = scanned[0]!
    const begun = { queues: scanned.map(({ queue }) => queue), after, ...kind, at_ms: performance.now() }
    const nth = scans.push(begun)
    const ms = takes_ms(begun, nth)
    if (ms > 0) await new Promise((resolve) => setTimeout(resolve, ms))
    return scanned.map(({ queue }) => {
      const found = answer(queue, kind.is_full, nth)
      if (found instanceof Error) throw found
      return { queue, ...found }
    })
  }
  const performer = {
    room,
    shares: { remainingQuota: () => undefined },
    idleFor: () => 0,
    databaseFailedAt: () => -Infinity,
    onFirstJob: () => {},
    perform({ id }: { id: string }) {
      perform(id)
      return Promise.resolve()
    },
  }
  const loop = startSweep(
    { sql, log: { warn: () => {} }, database: { isCurrent: () => true, isHeld } } as never,
    {
      queue: { isDown },
      queues,
      performer,
      concurrencyOf: () => 20,
      watchdog: { missed: () => {} },
    } as never,
  )
  while (!until(scans)) {
    expect(scans.length).toBeLessThan(10_000)
    await vi.advanceTimersToNextTimerAsync()
  }
  const closed = loop.close()
  await vi.runOnlyPendingTimersAsync()
  await closed
  return scans
}

/** Whether each full scan read only recent jobs. */
const reachesOf = (scans: Scan[]) => scans.filter(({ is_full }) => is_full).map(({ is_recent }) => is_recent)

/** Whether this many full scans have begun. */
const untilFull = (count: number) => (scans: Scan[]) => reachesOf(scans).length === count

test('between two full scans, only jobs without a wake-up are looked for', async () => {
  const scans = await scansUntil(['payments'], { until: untilFull(2) })
  expect(scans.length).toBeGreaterThan(3)
  expect(scans.slice(0, 2).map(({ is_full }) => is_full)).toEqual([true, false])
})

test('after two slow full scans, full scans read only recent jobs until a pause has passed', async () => {
  const scans = await scansUntil(['payments'], {
    takes_ms: ({ is_full, is_recent }) => (is_full && !is_recent ? 150 : 0),
    until: (made) => reachesOf(made).filter((is_recent) => !is_recent).length === 3,
  })
  const reaches = reachesOf(scans)
  // The pause is 7.5 s, and a full scan is due every half second.
  expect(reaches.length).toBeGreaterThan(10)
  expect(reaches).toEqual([false, false, ...reaches.slice(3).map(() => true), false])
})

test('a metric is 1 while full scans read only recent jobs', async () => {
  let is_held = false
  await scansUntil(['payments'], {
    isHeld: () => is_held,
    takes_ms: ({ is_full }) => (is_full ? 100 : 0),
    until: (made) => reachesOf(made).includes(true),
  })
  const isReduced = async () => {
    const { values } = await metrics.scansReduced.get()
    return values.find(({ labels }) => labels.scan === 'jobs')?.value
  }
  expect(await isReduced()).toBe(1)
  is_held = true
  expect(await isReduced()).toBe(0)
  is_held = false
  vi.advanceTimersByTime(5_000)
  expect(await isReduced()).toBe(0)
})

test.each([
  ['found jobs that no other scan finds', { ...NONE, ids: ['job'], others: 1 }],
  ['found many jobs', { ...NONE, ids: Array.from({ length: 100 }, () => 'job') }],
  ['failed', Object.assign(new Error('canceled'), { code: '57014' })],
])('a slow scan that %s does not count', async (_, answer) => {
  const scans = await scansUntil(['payments'], {
    takes_ms: ({ is_full }) => (is_full ? 150 : 0),
    answer: (_queue, is_full) => (is_full ? answer : NONE),
    until: untilFull(6),
  })
  expect(reachesOf(scans)).toEqual(Array.from({ length: 6 }, () => false))
})

test('a scan that takes more than two seconds claims nothing and does not count, and the next one claims', async () => {
  const claimed: string[] = []
  const scans = await scansUntil(['payments'], {
    takes_ms: (_scan, nth) => (nth <= 2 ? 2_500 : 0),
    answer: (_queue, _is_full, nth) => (nth <= 2 ? { ...NONE, ids: [`job ${nth}`] } : NONE),
    perform: (id) => claimed.push(id),
    until: untilFull(5),
  })
  expect(claimed).toEqual(['job 2'])
  expect(reachesOf(scans)).toEqual(Array.from({ length: 5 }, () => false))
})

test.each([
  [3, 0.6],
  [9, 2.5],
])(
  'full scans whose pages always take %d and %d s claim jobs whose leases have just lapsed',
  async (...pages_s) => {
    const claimed: string[] = []
    const scans = await scansUntil(['payments'], {
      takes_ms: ({ after }) => pages_s[after === null ? 0 : 1] * 1_000,
      answer: (_queue, _is_full, nth) => ({
        ...NONE,
        ids: [String(nth)],
        others: 1,
        after: nth === 1 || nth % 2 === 1 ? null : 'tenant',
      }),
      perform: (id) => claimed.push(id),
      until: untilFull(12),
    })
    const claims = claimed.map((id) => scans[Number(id) - 1]!)
    expect(claims).toEqual(scans.slice(1))
    expect(claims[0]).toMatchObject({ after: null, leaves_lapsed: true })
    const later = claims.slice(-6)
    expect(later.map(({ leaves_lapsed }) => leaves_lapsed)).toEqual(later.map(() => false))
    expect(new Set(later.map(({ after }) => after))).toEqual(new Set([null, 'tenant']))
  },
)

test('after a slow scan that is not repeated as slowly, another one is not usual', async () => {
  const scans = await scansUntil(['payments'], {
    takes_ms: (_scan, nth) => (nth === 1 || nth === 4 ? 5_000 : 0),
    answer: () => ({ ...NONE, ids: ['job'], others: 1 }),
    until: untilFull(6),
  })
  // More than three seconds after the first one.
  expect(scans[4]).toMatchObject({ leaves_lapsed: true })
})

describe.each([
  ['jobs are held', { is_held: true, is_down: false }],
  ['the queue is down', { is_held: false, is_down: true }],
])('while %s', (_, cause) => {
  test('full scans read all jobs, although they were slow before', async () => {
    let waits = false
    let full = 0
    const scans = await scansUntil(['payments'], {
      isHeld: () => waits && cause.is_held,
      isDown: () => waits && cause.is_down,
      takes_ms: ({ is_full, is_recent }) => (is_full && !is_recent && !waits ? 100 : 0),
      answer(_queue, is_full) {
        if (is_full && ++full === 3) waits = true
        return NONE
      },
      until: untilFull(6),
    })
    expect(reachesOf(scans)).toEqual([false, false, true, false, false, false])
  })

  test('slow scans do not count', async () => {
    let waits = true
    let full = 0
    const scans = await scansUntil(['payments'], {
      isHeld: () => waits && cause.is_held,
      isDown: () => waits && cause.is_down,
      takes_ms: () => (waits ? 100 : 0),
      answer(_queue, is_full) {
        if (is_full && ++full === 4) waits = false
        return NONE
      },
      until: untilFull(6),
    })
    expect(reachesOf(scans)).toEqual(Array.from({ length: 6 }, () => false))
  })
})

test.each([
  ['the statement timed out', '57014', 400],
  ['the database did not answer', 'ECONNREFUSED', 50],
])('while jobs are held, the pause after a scan that failed because %s', async (_, code, pause_ms) => {
  const [failed, next] = await scansUntil(['payments'], {
    isHeld: () => true,
    takes_ms: () => 100,
    answer: () => Object.assign(new Error('no answer'), { code }),
    until: (made) => made.length === 2,
  })
  expect(next!.at_ms - failed!.at_ms - 100).toBe(pause_ms)
})

test('while full scans find jobs that no other scan finds, such as those that waited since a switch, all scans are full', async () => {
  const scans = await scansUntil(['payouts'], {
    answer: (_queue, is_full, nth) => (is_full && nth < 20 ? { ...NONE, ids: ['job'], others: 1 } : NONE),
    until: (made) => made.length === 21,
  })
  expect(scans.map(({ is_full }) => is_full)).toEqual([...Array.from({ length: 20 }, () => true), false])
})

test('a round through many tenants that takes several full scans is not interrupted, even if they are slow', async () => {
  const scans = await scansUntil(['payments'], {
    takes_ms: ({ is_full }) => (is_full ? 100 : 0),
    answer: (_queue, _is_full, nth) => ({ ...NONE, after: nth < 8 ? `tenant ${nth}` : null }),
    until: (made) => made.length === 9,
  })
  expect(scans.map(({ is_full }) => is_full)).toEqual([...Array.from({ length: 8 }, () => true), false])
  expect(reachesOf(scans)).toEqual(Array.from({ length: 8 }, () => false))
  expect(scans.slice(1, 8).map(({ after }) => after)).toEqual(
    Array.from({ length: 7 }, (_, n) => `tenant ${n + 1}`),
  )
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
  expect(scans).toMatchObject([
    { queues: ['payments'], is_full: true, is_recent: false },
    { queues: ['payments'], is_full: false, is_recent: false },
    { queues: ['payments'], is_full: false, is_recent: false },
    { queues: ['payments', 'payouts'], is_full: true, is_recent: false },
  ])
})

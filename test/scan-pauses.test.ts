// How long the loops of a worker pause after slow statements, and what they read meanwhile.
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { fakeConnection, readsRecentRows } from '#test/fake-connection.ts'
import type * as Metrics from '#core/metrics.ts'
import type { Loop } from '#workers/clock.ts'
import type * as Deliveries from '#workers/deliveries.ts'
import type * as Sweep from '#workers/sweep.ts'
import type * as Waiting from '#workers/recurring/waiting.ts'

let metrics: typeof Metrics.metrics
let deliverEvents: typeof Deliveries.deliverEvents
let startWatchdog: typeof Sweep.startWatchdog
let compareWaitingNotifications: typeof Waiting.compareWaitingNotifications

beforeAll(async () => {
  // The files of a process share modules, and the real clock of the ticks may already run.
  vi.resetModules()
  ;({ metrics } = await import('#core/metrics.ts'))
  ;({ deliverEvents } = await import('#workers/deliveries.ts'))
  ;({ startWatchdog } = await import('#workers/sweep.ts'))
  ;({ compareWaitingNotifications } = await import('#workers/recurring/waiting.ts'))
  vi.useFakeTimers({
    toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'performance'],
  })
})
afterAll(() => {
  vi.useRealTimers()
  vi.resetModules()
})

const log = { warn: () => {} }
const database = { isCurrent: () => true, track: (work: () => Promise<void>) => work() }
const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

/** Lets the loops work until `isDone` returns true. */
async function workUntil(isDone: () => boolean, ...loops: Loop[]): Promise<void> {
  // All pauses of a test are shorter.
  const ends_at = performance.now() + 120_000
  while (!isDone()) {
    expect(performance.now()).toBeLessThan(ends_at)
    await vi.advanceTimersToNextTimerAsync()
  }
  const closed = Promise.all(loops.map((loop) => loop.close()))
  await vi.runOnlyPendingTimersAsync()
  await closed
}

/** The pauses after statements that take this long. */
async function pausesAfter(
  times_ms: number[],
  start: (statement: () => Promise<void>) => Loop[],
): Promise<number[]> {
  const pauses: number[] = []
  let ended_at = performance.now()
  const loops = start(async () => {
    const pause_ms = performance.now() - ended_at
    await sleep(times_ms[pauses.push(pause_ms) - 1] ?? 0)
    ended_at = performance.now()
  })
  await workUntil(() => pauses.length > times_ms.length, ...loops)
  return pauses.slice(1)
}

test('the watchdog pauses after two slow checks, for half a minute at most', async () => {
  const performer = {
    room: () => 1,
    shares: { hasUsedUpQuota: () => false },
    lastWakeUpAt: () => performance.now(),
  }
  const pauses = await pausesAfter([1, 200, 200, 2_000, 2_000, 1], (check) => {
    const sql = fakeConnection((text) => (text.includes('age_s') ? check().then(() => []) : undefined))
    const options = { queues: ['payments'], performer, restart: () => Promise.resolve() }
    return [startWatchdog({ sql, log } as never, options as never)]
  })
  expect(pauses).toEqual([5_000, 5_000, 10_000, 10_000, 30_000, 5_000])
})

/** Which comparisons read only recent notifications, if comparing all takes 150 ms and finds this many. */
async function comparisonsUntil(found: number, isDone: (reaches: boolean[]) => boolean): Promise<boolean[]> {
  const reaches: boolean[] = []
  async function compare(is_recent: boolean): Promise<unknown[]> {
    reaches.push(is_recent)
    if (!is_recent) await sleep(150)
    return Array.from({ length: found }, () => ({ state: 'waiting' }))
  }
  const sql = fakeConnection((text) =>
    text.includes('update notifications n') ? compare(readsRecentRows(text)) : undefined,
  )
  const loop = compareWaitingNotifications({ sql, log, database } as never, () => Promise.resolve(true))
  await workUntil(() => isDone(reaches), loop)
  return reaches
}

test('after two slow comparisons, only recent notifications are compared until a pause has passed', async () => {
  const reaches = await comparisonsUntil(1, (all) => all.filter((is_recent) => !is_recent).length === 3)
  // The pause is 7.4 s, and the next comparison begins after 100 ms.
  expect(reaches.length).toBeGreaterThan(50)
  expect(reaches).toEqual([false, false, ...reaches.slice(3).map(() => true), false])
})

test('a metric is 1 while only recent notifications are compared', async () => {
  const isReduced = async () => {
    const { values } = await metrics.scansReduced.get()
    return values.find(({ labels }) => labels.scan === 'notifications')?.value
  }
  await comparisonsUntil(1, (reaches) => reaches.length === 2)
  expect(await isReduced()).toBe(1)
  vi.advanceTimersByTime(10_000)
  expect(await isReduced()).toBe(0)
})

test('a comparison of many notifications is not slow', async () => {
  const reaches = await comparisonsUntil(100, (all) => all.length === 6)
  expect(reaches).toEqual(Array.from({ length: 6 }, () => false))
})

/** The loops for deliveries. `claim`: a claim, which resolves with the number of dropped deliveries. */
function startDeliveries(claim: () => Promise<number>, { changes = false } = {}): Loop[] {
  const sequenced = changes
    ? [{ tenant_id: 'a', events: 1, deliveries: 1, trace_contexts: null }, { tenant_id: null }]
    : [{ tenant_id: null }]
  const sql = fakeConnection(
    (text) => {
      if (text.includes('pg_locks'))
        return Promise.resolve([{ writers: [], at_s: performance.now() / 1000, server: '1' }])
      return text.includes('from sequence_events') ? Promise.resolve(sequenced) : undefined
    },
    async () => ({ jobs: [], scanned: [], after: null, dropped: await claim() }),
  )
  const performer = { room: () => 10, shares: { remainingQuota: () => undefined }, idleFor: () => 0 }
  return deliverEvents({ sql, log, database, idleness: { recordWork: () => {} } } as never, {
    queue: { publish: () => {} } as never,
    performer: performer as never,
    worker: 'worker',
    concurrency: 10,
    hasWork: (kind) => Promise.resolve(kind === 'deliveries'),
  })
}

test('claims of deliveries pause after two slow ones, for two seconds at most', async () => {
  const pauses = await pausesAfter([1, 90, 90, 1_000, 1_000, 1], (claim) =>
    startDeliveries(() => claim().then(() => 0)),
  )
  expect(pauses.toSpliced(4, 1)).toEqual([200, 200, 360, 360, 200])
  // A pause of more than half a second ends with one of the ticks.
  expect(pauses[4]).toBeGreaterThan(1_500)
  expect(pauses[4]).toBeLessThan(2_500)
})

test('a claim that drops many deliveries is not slow', async () => {
  const pauses = await pausesAfter([90, 90, 90], (claim) => startDeliveries(() => claim().then(() => 20)))
  expect(pauses).toEqual([1, 1, 1])
})

test('claims from changed backlogs pause too', async () => {
  let claims = 0
  const ends_at = performance.now() + 30_000
  const loops = startDeliveries(
    async () => {
      claims += 1
      await sleep(1_000)
      return 0
    },
    { changes: true },
  )
  await workUntil(() => performance.now() >= ends_at, ...loops)
  // Each of the two loops: 1 s for a claim, and about 2 s for the pause.
  expect(claims).toBeLessThan(35)
})

// Tests the batcher: concurrent items share statements, within the limits of lanes and sizes.
import { setImmediate as nextTick } from 'node:timers/promises'
import { expect, onTestFinished, test, vi } from 'vitest'
import { createBatcher, type BatchOptions, type Lanes } from '#core/batch.ts'

const LONG_GATHER_MS = 1e9

/** A batcher of numbers. `runs` lists the items of each run. */
function recordingBatcher(gather_ms: number, options: BatchOptions<number> = {}) {
  const runs: number[][] = []
  const send = createBatcher<number, number>(
    'test',
    async (items) => {
      runs.push(items)
      return items
    },
    { gather_ms, ...options },
  )
  return { runs, send }
}

test('a single item does not wait, and the items that follow soon share a run', async () => {
  const { runs, send } = recordingBatcher(500)
  await send(1)
  expect(runs).toEqual([[1]])
  const second = send(2)
  for (let tick = 0; tick < 3; tick++) await nextTick()
  const third = send(3)
  expect(await Promise.all([second, third])).toEqual([2, 3])
  expect(runs).toEqual([[1], [2, 3]])
})

test('a large batch runs without waiting for more items', async () => {
  const { runs, send } = recordingBatcher(LONG_GATHER_MS)
  await send(0)
  const many = Array.from({ length: 50 }, (_, nth) => nth + 1)
  expect(await Promise.all(many.map(send))).toEqual(many)
  expect(runs).toEqual([[0], many])
})

test.each([{}, { key: String }])('a run has at most the given number of items', async (options) => {
  const { runs, send } = recordingBatcher(0, { max_items: 2, ...options })
  expect(await Promise.all([1, 2, 3, 4, 5].map(send))).toEqual([1, 2, 3, 4, 5])
  expect(runs).toEqual([[1, 2], [3, 4], [5]])
})

test('after a short run, the next run starts when the gathering time is over', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
  onTestFinished(() => void vi.useRealTimers())
  const finish: (() => void)[] = []
  const send = createBatcher<number, number>(
    'test',
    async (items) => {
      await new Promise<void>((resolve) => finish.push(resolve))
      return items
    },
    { gather_ms: 4 },
  )
  const first = send(1)
  await nextTick()
  const second = send(2)
  await nextTick()
  await vi.advanceTimersByTimeAsync(1)
  finish[0]!()
  await first
  expect(finish).toHaveLength(1)
  await vi.advanceTimersByTimeAsync(3)
  expect(finish).toHaveLength(2)
  finish[1]!()
  expect(await second).toBe(2)
})

test('a refused item fails alone, and few statements are needed to find the refused item', async () => {
  let runs = 0
  const refused = Object.assign(new Error('duplicate key'), { code: '23505' })
  const send = createBatcher<number, number>('test', async (items) => {
    runs += 1
    if (items.includes(17)) throw refused
    return items
  })
  const results = await Promise.allSettled(Array.from({ length: 100 }, (_, item) => send(item)))
  expect(results.filter(({ status }) => status === 'rejected')).toEqual([
    { status: 'rejected', reason: refused },
  ])
  expect(results[17]!.status).toBe('rejected')
  expect(runs).toBeLessThanOrEqual(15)
})

test('a lane has one run at a time: items that arrive during a run share the next run, and other lanes continue', async () => {
  const finish: (() => void)[] = []
  const runs: string[][] = []
  const send = createBatcher<string, string>(
    'test',
    async (items) => {
      runs.push(items)
      if (items.includes('hot first')) await new Promise<void>((resolve) => finish.push(resolve))
      return items
    },
    { lane: (item) => item.split(' ')[0]! },
  )
  const first = send('hot first')
  await nextTick()
  const next = [send('hot second'), send('hot third')]
  expect(await Promise.all([send('one'), send('other')])).toEqual(['one', 'other'])
  expect(runs).toEqual([['hot first'], ['one', 'other']])
  finish[0]!()
  await Promise.all([first, ...next])
  expect(runs.slice(2)).toEqual([['hot second', 'hot third']])
})

/**
 * Batchers with shared lanes: the first word of an item names the item's lane. A run ends when `finish` is called for
 * the run.
 */
function createSharedBatchers(count: number) {
  const runs: string[][] = []
  const finish: (() => void)[] = []
  const lanes: Lanes = new Map()
  const sends = Array.from({ length: count }, () =>
    createBatcher<string, string>(
      'test',
      async (items) => {
        runs.push(items)
        await new Promise<void>((resolve) => finish.push(resolve))
        return items
      },
      { lane: (item) => item.split(' ')[0]!, lanes, gather_ms: 0 },
    ),
  )
  const waitForRuns = (expected: number) => vi.waitUntil(() => runs.length === expected, 10_000)
  return { runs, finish, sends, waitForRuns }
}

test('an item that waits for a lane of another batcher does not delay other lanes', async () => {
  const { runs, finish, sends, waitForRuns } = createSharedBatchers(2)
  const [small, large] = [sends[0]!, sends[1]!]
  const sent = [large('hot large')]
  await waitForRuns(1)
  sent.push(small('hot small'), small('cold small'))
  await waitForRuns(2)
  expect(runs).toEqual([['hot large'], ['cold small']])
  finish[1]!()
  await sent[2]
  finish[0]!()
  await waitForRuns(3)
  expect(runs[2]).toEqual(['hot small'])
  finish[2]!()
  await Promise.all(sent)
})

test('batchers that share a lane run in round robin', async () => {
  const { runs, finish, sends, waitForRuns } = createSharedBatchers(3)
  const sent = ['hot 1', 'hot 2', 'hot 3'].flatMap((item) => [sends[0]!(item)])
  await waitForRuns(1)
  sent.push(sends[1]!('hot large 1'))
  await nextTick()
  sent.push(sends[0]!('hot 4'))
  await nextTick()
  sent.push(sends[1]!('hot large 2'), sends[2]!('hot other'))
  await nextTick()
  for (let nth = 0; nth < runs.length; nth++) {
    finish[nth]!()
    if (nth < 3) await waitForRuns(nth + 2)
  }
  await Promise.all(sent)
  expect(runs).toEqual([
    ['hot 1', 'hot 2', 'hot 3'],
    ['hot large 1', 'hot large 2'],
    ['hot other'],
    ['hot 4'],
  ])
})

test('a run stays within its limit of bytes: a larger item runs alone, and small items fill the rest', async () => {
  const runs: string[][] = []
  const send = createBatcher<string, string>(
    'test',
    async (items) => {
      runs.push(items)
      return items
    },
    { size: (item) => Number(item.split(' ')[0]) * 1024 },
  )
  const items = ['300 KiB a', '300 KiB b', '600 KiB c', '1 KiB d', '1 KiB e']
  expect(await Promise.all(items.map(send))).toEqual(items)
  expect(runs).toEqual([['300 KiB a', '1 KiB d', '1 KiB e'], ['300 KiB b'], ['600 KiB c']])
})

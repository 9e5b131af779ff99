// Batching: which items share a statement, and which do not wait for others.
import { setImmediate as nextRound } from 'node:timers/promises'
import { expect, onTestFinished, test, vi } from 'vitest'
import { batcher } from '#core/batch.ts'

const FOR_EVER_MS = 1e9

/** Batches numbers; `runs` is what was carried together. */
function batches(gather_ms: number) {
  const runs: number[][] = []
  const send = batcher<number, number>(
    'test',
    async (items) => {
      runs.push(items)
      return items
    },
    { gather_ms },
  )
  return { runs, send }
}

test('a single item does not wait, and those that come soon after it are carried together', async () => {
  const { runs, send } = batches(500)
  await send(1)
  expect(runs).toEqual([[1]])
  const second = send(2)
  for (let round = 0; round < 3; round++) await nextRound()
  const third = send(3)
  expect(await Promise.all([second, third])).toEqual([2, 3])
  expect(runs).toEqual([[1], [2, 3]])
})

test('many items do not wait for more', async () => {
  const { runs, send } = batches(FOR_EVER_MS)
  await send(0)
  const many = Array.from({ length: 50 }, (_, nth) => nth + 1)
  expect(await Promise.all(many.map(send))).toEqual(many)
  expect(runs).toEqual([[0], many])
})

test('what arrived during a short run waits no longer than what came after it', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
  onTestFinished(() => void vi.useRealTimers())
  const ends: (() => void)[] = []
  const send = batcher<number, number>(
    'test',
    async (items) => {
      await new Promise<void>((end) => ends.push(end))
      return items
    },
    { gather_ms: 4 },
  )
  const first = send(1)
  await nextRound()
  const second = send(2)
  await nextRound()
  await vi.advanceTimersByTimeAsync(1)
  ends[0]!()
  await first
  expect(ends).toHaveLength(1)
  await vi.advanceTimersByTimeAsync(3)
  expect(ends).toHaveLength(2)
  ends[1]!()
  expect(await second).toBe(2)
})

test('one refused item fails alone, and few statements find it', async () => {
  let runs = 0
  const refused = Object.assign(new Error('duplicate key'), { code: '23505' })
  const send = batcher<number, number>('test', async (items) => {
    runs += 1
    if (items.includes(17)) throw refused
    return items
  })
  const answers = await Promise.allSettled(Array.from({ length: 100 }, (_, item) => send(item)))
  expect(answers.filter(({ status }) => status === 'rejected')).toEqual([
    { status: 'rejected', reason: refused },
  ])
  expect(answers[17]!.status).toBe('rejected')
  expect(runs).toBeLessThanOrEqual(15)
})

test('a lane has one run at a time: what comes meanwhile is carried together, and others go on', async () => {
  const ends: (() => void)[] = []
  const runs: string[][] = []
  const send = batcher<string, string>(
    'test',
    async (items) => {
      runs.push(items)
      if (items.includes('hot first')) await new Promise<void>((end) => ends.push(end))
      return items
    },
    { lane: (item) => item.split(' ')[0]! },
  )
  const first = send('hot first')
  await nextRound()
  const next = [send('hot second'), send('hot third')]
  expect(await Promise.all([send('one'), send('other')])).toEqual(['one', 'other'])
  expect(runs).toEqual([['hot first'], ['one', 'other']])
  ends[0]!()
  await Promise.all([first, ...next])
  expect(runs.slice(2)).toEqual([['hot second', 'hot third']])
})

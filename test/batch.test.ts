// Batching: which items share a statement, and which do not wait for others.
import { setImmediate as nextRound } from 'node:timers/promises'
import { expect, onTestFinished, test, vi } from 'vitest'
import { createBatcher, type Lanes } from '#core/batch.ts'

const FOR_EVER_MS = 1e9

/** Batches numbers; `runs` is what was carried together. */
function batches(gather_ms: number) {
  const runs: number[][] = []
  const send = createBatcher<number, number>(
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
  const send = createBatcher<number, number>(
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
  const send = createBatcher<number, number>('test', async (items) => {
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
  const send = createBatcher<string, string>(
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

/** Batchers that share their lanes, the first words of their items; a run ends when it is told to. */
function sharing(count: number) {
  const runs: string[][] = []
  const ends: (() => void)[] = []
  const lanes: Lanes = new Map()
  const sends = Array.from({ length: count }, () =>
    createBatcher<string, string>(
      'test',
      async (items) => {
        runs.push(items)
        await new Promise<void>((end) => ends.push(end))
        return items
      },
      { lane: (item) => item.split(' ')[0]!, lanes, gather_ms: 0 },
    ),
  )
  const ran = (count_of_runs: number) => vi.waitUntil(() => runs.length === count_of_runs, 10_000)
  return { runs, ends, sends, ran }
}

test('what waits for a lane that another batcher uses holds up no other lane', async () => {
  const { runs, ends, sends, ran } = sharing(2)
  const [small, large] = [sends[0]!, sends[1]!]
  const sent = [large('hot large')]
  await ran(1)
  sent.push(small('hot small'), small('cold small'))
  await ran(2)
  expect(runs).toEqual([['hot large'], ['cold small']])
  ends[1]!()
  await sent[2]
  ends[0]!()
  await ran(3)
  expect(runs[2]).toEqual(['hot small'])
  ends[2]!()
  await Promise.all(sent)
})

test('batchers that share a lane use it by turns', async () => {
  const { runs, ends, sends, ran } = sharing(3)
  const sent = ['hot 1', 'hot 2', 'hot 3'].flatMap((item) => [sends[0]!(item)])
  await ran(1)
  sent.push(sends[1]!('hot large 1'))
  await nextRound()
  sent.push(sends[0]!('hot 4'))
  await nextRound()
  sent.push(sends[1]!('hot large 2'), sends[2]!('hot other'))
  await nextRound()
  for (let nth = 0; nth < runs.length; nth++) {
    ends[nth]!()
    if (nth < 3) await ran(nth + 2)
  }
  await Promise.all(sent)
  expect(runs).toEqual([
    ['hot 1', 'hot 2', 'hot 3'],
    ['hot large 1', 'hot large 2'],
    ['hot other'],
    ['hot 4'],
  ])
})

test('a run carries no more bytes than it may: what is larger goes alone, and what is small still fits', async () => {
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

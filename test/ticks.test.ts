// Timers that fire together.
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { createLog } from '#core/log.ts'
import type { DatabaseWatch } from '#domain/switches/watch.ts'
import type * as Clock from '#workers/clock.ts'

let atTick: (work: () => void, ms: number) => () => void
let everyTick: (work: () => void, ms: number) => () => void
let repeatWhileCurrent: typeof Clock.repeatWhileCurrent

beforeEach(async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  // The files of a process share modules, and the real clock may already run.
  vi.resetModules()
  ;({ atTick, everyTick } = await import('#core/ticks.ts'))
  ;({ repeatWhileCurrent } = await import('#workers/clock.ts'))
})
afterEach(() => void vi.useRealTimers())

/** Records the ticks at which `name` is called. */
function createRecord() {
  const calls: string[] = []
  let tick = 0
  return {
    calls,
    record: (name: string) => () => void calls.push(`${name} ${tick}`),
    advance: (ticks: number): void => {
      for (let n = 0; n < ticks; n++) {
        tick += 1
        vi.advanceTimersByTime(500)
      }
    },
  }
}

test('work of different intervals begins at the same ticks', () => {
  const { calls, record, advance } = createRecord()
  everyTick(record('half'), 500)
  everyTick(record('whole'), 1_000)
  atTick(record('once'), 1_100)
  advance(4)
  expect(calls.toSorted()).toEqual(['half 1', 'half 2', 'half 3', 'half 4', 'once 2', 'whole 2', 'whole 4'])
})

test('canceled work is not called, and work that is shorter than a tick is called at the next one', () => {
  const { calls, record, advance } = createRecord()
  const stop = everyTick(record('stopped'), 500)
  atTick(record('canceled'), 500)()
  advance(1)
  stop()
  atTick(record('short'), 10)
  advance(2)
  expect(calls).toEqual(['stopped 1', 'short 2'])
})

test('the clock runs only while work waits', () => {
  const cancel = atTick(() => {}, 1_000)
  expect(vi.getTimerCount()).toBe(1)
  cancel()
  vi.advanceTimersByTime(500)
  expect(vi.getTimerCount()).toBe(0)
})

test('while the database is sealed, recurring work is not counted, not even within a tick', () => {
  let counted = 0
  const database = {
    isCurrent: () => false,
    track: async (work: () => Promise<unknown>) => {
      counted += 1
      return await work()
    },
  } as unknown as DatabaseWatch
  const loop = repeatWhileCurrent(
    { log: createLog('silent', 'test'), database },
    'test',
    () => 500,
    async () => {},
  )
  vi.advanceTimersByTime(3_000)
  expect(counted).toBe(0)
  void loop.close()
})

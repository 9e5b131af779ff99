// How often an idle worker does its recurring work.
import { afterEach, expect, test, vi } from 'vitest'
import { createIdleness } from '#workers/idleness.ts'

afterEach(() => void vi.useRealTimers())

test('recurring work is done less often while the worker is idle, and as usual from its next job or event on', () => {
  vi.useFakeTimers({ toFake: ['performance'] })
  const idleness = createIdleness()
  const all = [1_000, 10_000, 60_000].map((busy_ms) => idleness.interval(busy_ms))
  const limited = idleness.interval(5_000, 15_000)
  const intervals = () => [...all.map((interval_ms) => interval_ms()), limited()]
  const busy = [1_000, 10_000, 60_000, 5_000]
  expect(intervals()).toEqual(busy)
  vi.advanceTimersByTime(29_000)
  expect(intervals()).toEqual(busy)
  vi.advanceTimersByTime(1_000)
  expect(intervals()).toEqual([6_000, 30_000, 60_000, 15_000])
  idleness.recordWork()
  expect(intervals()).toEqual(busy)
})

// The loops of workers.
import pino from 'pino'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { every } from '#workers/clock.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

test('what is done each hour is done soon after a start too, and then each hour', async () => {
  const work = vi.fn<() => Promise<void>>(async () => {})
  const loop = every(pino({ level: 'silent' }), 'rare', () => 3600_000, work)
  await vi.advanceTimersByTimeAsync(60_000)
  expect(work).toHaveBeenCalledTimes(1)
  await vi.advanceTimersByTimeAsync(3500_000)
  expect(work).toHaveBeenCalledTimes(1)
  await vi.advanceTimersByTimeAsync(100_000)
  expect(work).toHaveBeenCalledTimes(2)
  await loop.close()
})

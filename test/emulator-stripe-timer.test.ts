// The timer of the Stripe emulator, which performs the scheduled changes of the engine.
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { createChangeTimer } from '#emulators/stripe/timer.ts'
import { moveClock } from '#providers/sandbox/stripe/due.ts'
import { createEngine, type Engine } from '#providers/sandbox/stripe/engine.ts'
import { SETTLE_DELAY_MS } from '#providers/sandbox/stripe/schedule.ts'
import { create as createObject, DAY_MS, HOLD, PAYOUT } from '#test/engine.ts'

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'] }))
afterEach(() => void vi.useRealTimers())

function start() {
  const engine: Engine = createEngine({ onScheduled: () => timer.arm() })
  const timer = createChangeTimer(engine)
  return { engine, timer }
}

/** Creates an object and returns a function that reads its status. */
function create(engine: Engine, path: 'payouts' | 'payment_intents', body: string): () => string {
  const id = createObject(engine, path, body)
  const { payouts, intents } = engine.store
  return () => (path === 'payouts' ? payouts : intents).byId.get(id)!.status
}

test('each change happens at its time, and no timer remains after the last one', () => {
  const { engine } = start()
  const status = create(engine, 'payouts', PAYOUT)
  vi.advanceTimersByTime(SETTLE_DELAY_MS - 1)
  expect(status()).toBe('pending')
  vi.advanceTimersByTime(1)
  expect(status()).toBe('in_transit')
  vi.advanceTimersByTime(SETTLE_DELAY_MS)
  expect([status(), vi.getTimerCount()]).toEqual(['paid', 0])
})

test('a single timer serves all changes: an earlier change replaces the time of a later one', () => {
  const { engine } = start()
  const hold = create(engine, 'payment_intents', HOLD)
  const payout = create(engine, 'payouts', PAYOUT)
  expect(vi.getTimerCount()).toBe(1)
  vi.advanceTimersByTime(2 * SETTLE_DELAY_MS)
  expect([payout(), hold(), vi.getTimerCount()]).toEqual(['paid', 'requires_capture', 1])
  vi.advanceTimersByTime(7 * DAY_MS)
  expect([hold(), vi.getTimerCount()]).toEqual(['canceled', 0])
})

test('the timer follows the clock of the engine, and within a minute the clock of the system', () => {
  const { engine, timer } = start()
  const first = create(engine, 'payment_intents', HOLD)
  moveClock(engine, 7 * DAY_MS - 1000)
  timer.arm()
  vi.advanceTimersByTime(999)
  expect(first()).toBe('requires_capture')
  vi.advanceTimersByTime(1)
  expect(first()).toBe('canceled')

  const second = create(engine, 'payment_intents', HOLD)
  vi.setSystemTime(Date.now() + 8 * DAY_MS)
  vi.advanceTimersByTime(60_000)
  expect(second()).toBe('canceled')
})

test('if the clock of the system is set back, banks decide after the same delay, and holds keep their time', () => {
  const { engine } = start()
  const hold = create(engine, 'payment_intents', HOLD)
  const payout = create(engine, 'payouts', PAYOUT)
  vi.setSystemTime(Date.now() - DAY_MS)
  vi.advanceTimersByTime(3 * SETTLE_DELAY_MS)
  expect(payout()).toBe('paid')
  vi.advanceTimersByTime(7 * DAY_MS)
  expect(hold()).toBe('requires_capture')
  vi.advanceTimersByTime(DAY_MS)
  expect(hold()).toBe('canceled')
})

test('a change that fails does not stop the timer', () => {
  const { engine } = start()
  create(engine, 'payouts', PAYOUT)
  const other = create(engine, 'payouts', PAYOUT)
  const { byId, ids } = engine.store.payouts
  byId.delete(ids[0]!)
  vi.advanceTimersByTime(2 * SETTLE_DELAY_MS)
  expect([other(), vi.getTimerCount()]).toEqual(['paid', 1])
})

test('a stopped timer performs nothing', () => {
  const { engine, timer } = start()
  const hold = create(engine, 'payment_intents', HOLD)
  timer.stop()
  const payout = create(engine, 'payouts', PAYOUT)
  expect(vi.getTimerCount()).toBe(0)
  vi.advanceTimersByTime(8 * DAY_MS)
  expect([hold(), payout()]).toEqual(['requires_capture', 'pending'])
})

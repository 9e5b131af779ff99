// How often the sequencer runs.
import { expect, test, vi } from 'vitest'
import { createSequencer } from '../src/workers/sequencer.ts'

/** The interval after a run that takes this long and sequences this number of events. */
async function intervalAfter(took_ms: number, { events = 1, more = false } = {}): Promise<number> {
  vi.useFakeTimers({ toFake: ['performance'] })
  try {
    const sql = (strings: TemplateStringsArray) => {
      const text = strings.join('')
      if (text.includes('pg_locks')) return Promise.resolve([{ writers: [], at_s: 0, server: '1' }])
      if (!text.includes('sequence_events')) return []
      vi.advanceTimersByTime(took_ms)
      const tenant = { tenant_id: 'a', events, deliveries: 0, trace_contexts: null }
      return Promise.resolve(more ? [tenant] : [tenant, { tenant_id: null }])
    }
    const sequencer = createSequencer(
      { sql } as never,
      { queue: { publish: () => {} }, performer: { idleFor: () => 0 } } as never,
      () => {},
    )
    await sequencer.sequence()
    return took_ms + sequencer.intervalMs()
  } finally {
    vi.useRealTimers()
  }
}

test.each([
  ['a short run', 1, 50],
  ['a run that takes long, of which there are fewer', 12, 120],
  ['a run that takes very long', 100, 250],
])('the interval after %s', async (_, took_ms, interval_ms) => {
  expect(await intervalAfter(took_ms)).toBe(interval_ms)
})

test('the next run begins at once while there are more events than one run sequences', async () => {
  expect(await intervalAfter(12, { more: true })).toBe(13)
})

// Which connections of a pool are pinged.
import { expect, test } from 'vitest'
import { countPings } from '#core/postgres/silence.ts'
import { createTraffic } from '#core/postgres/traffic.ts'

const BUSY = Promise.resolve()

test.each([
  { about: 'no statement was sent: each open connection', peak: 4, sent: 0, pending: 0, pings: 4 },
  { about: 'a pool without a statement so far: one connection', peak: 1, sent: 0, pending: 0, pings: 1 },
  { about: 'some were used since the last pings: the others', peak: 4, sent: 3, pending: 0, pings: 1 },
  { about: 'all were used since the last pings: none', peak: 4, sent: 9, pending: 0, pings: 0 },
  {
    about: 'a statement from before the last pings still runs: the others',
    peak: 4,
    sent: 0,
    pending: 1,
    pings: 3,
  },
  { about: 'more statements waited than there are connections', peak: 50, sent: 0, pending: 0, pings: 10 },
])('$about', ({ peak, sent, pending, pings }) => {
  const traffic = { ...createTraffic(), peak, sent: 100 + sent, sent_at_pings: 100 }
  for (let n = 0; n < pending; n++) traffic.pending.set(BUSY, { limit_ms: 1_000, checks: 0 })
  expect(countPings(traffic, 10)).toBe(pings)
})

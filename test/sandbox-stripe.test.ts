// The engine of the Stripe emulator without a server: requests are function calls, and only the tests move the time.
import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import {
  earliestChange,
  emptySchedule,
  findChange,
  putChange,
  removeChange,
  type DueChange,
} from '#providers/sandbox/stripe/due-changes.ts'
import {
  followClock,
  moveClock,
  resumeChanges,
  RETRY_DELAY_MS,
  runDue,
} from '#providers/sandbox/stripe/due.ts'
import type { Effect } from '#providers/sandbox/stripe/effects.ts'
import { createEngine, nowMs, type Engine, type EngineOptions } from '#providers/sandbox/stripe/engine.ts'
import type { StoredEvent } from '#providers/sandbox/stripe/event-log.ts'
import { markDelivered } from '#providers/sandbox/stripe/events.ts'
import type { JournalLine } from '#providers/sandbox/stripe/journal.ts'
import { replayInto } from '#providers/sandbox/stripe/replay.ts'
import { performRequest } from '#providers/sandbox/stripe/requests.ts'
import { nextDueMs, scheduleAt, SETTLE_DELAY_MS } from '#providers/sandbox/stripe/schedule.ts'
import { create, DAY_MS, get, HOLD, post } from '#test/engine.ts'

const START_MS = Date.UTC(2026, 0, 1)
const SALE = HOLD.replace('manual', 'automatic')

/** An engine, the lines of its journal, and the time of its host. */
function startEngine(options: EngineOptions = {}) {
  const lines: string[] = []
  const host = { now_ms: START_MS }
  const engine = createEngine({ hostMs: () => host.now_ms, pages_url: 'https://pages.example', ...options })
  engine.journal = { append: (line) => void lines.push(JSON.stringify(line)) }
  return { engine, lines, host }
}

/** A new engine with the state of a journal, at this time of its host. */
function replayed(lines: string[], now_ms = START_MS): Engine {
  const { engine } = startEngine({ hostMs: () => now_ms })
  const replay = replayInto(engine)
  for (const line of lines) replay(JSON.parse(line) as JournalLine)
  return engine
}

/** The events, oldest first: the type, and the time since START_MS in seconds. */
function eventsOf(engine: Engine): [string, number][] {
  const { data } = get(engine, 'events', 'limit=100') as { data: { type: string; created: number }[] }
  return data.map(({ type, created }): [string, number] => [type, created - START_MS / 1000]).toReversed()
}

test('a request is answered at once, with the headers of Stripe, and a key replays the response', () => {
  const { engine } = startEngine({ api_key: 'sk_test_1' })
  const response = post(engine, 'payouts', 'amount=500&currency=usd', 'a')
  expect(response).toMatchObject({
    status: 200,
    headers: {
      date: 'Thu, 01 Jan 2026 00:00:00 GMT',
      'request-id': expect.stringMatching(/^req_/),
      'idempotency-key': 'a',
    },
  })
  expect(JSON.parse(response.body)).toMatchObject({ object: 'payout', status: 'pending', amount: 500 })
  moveClock(engine, 1000)
  const again = post(engine, 'payouts', 'amount=500&currency=usd', 'a')
  expect([again.body, again.headers['idempotent-replayed']]).toEqual([response.body, 'true'])
  expect(post(engine, 'payouts', 'amount=501&currency=usd', 'a').status).toBe(400)
  const stranger = { authorization: 'Bearer sk_test_2' }
  const refused = { method: 'GET', path: '/v1/events', query: '', body: '', headers: stranger }
  expect(performRequest(engine, refused).status).toBe(401)
  const challenged = post(
    engine,
    'payment_intents',
    `${HOLD.replace('visa', 'authenticationRequired').replace('never', 'always')}&return_url=https://shop.example`,
  )
  const { id, next_action } = JSON.parse(challenged.body)
  expect(next_action.redirect_to_url.url).toBe(`https://pages.example/payment_intents/${id}/authenticate`)
})

test('an exception is answered with 500 and passed to the host, and the answer is not stored', () => {
  const failures: unknown[] = []
  const failure = new Error('no space')
  let fails = true
  const { engine, lines } = startEngine({
    onEffect() {
      if (fails) throw failure
    },
    onFailure: (error, change) => void failures.push([error, change]),
  })
  expect(post(engine, 'payouts', 'amount=500&currency=usd', 'a').status).toBe(500)
  expect(failures).toEqual([[failure, null]])
  expect(stateOf(replayed(lines))).toEqual(stateOf(engine))
  fails = false
  expect(post(engine, 'payouts', 'amount=500&currency=usd', 'a').status).toBe(200)
})

test('a scheduled change that fails is reported and tried again a day later, and the others happen', () => {
  const failures: unknown[] = []
  const { engine, lines } = startEngine({
    onFailure: (error, change) => void failures.push([String(error), change?.id]),
  })
  const lost = create(engine, 'payouts', 'amount=500&currency=usd')
  const other = create(engine, 'payouts', 'amount=500&currency=usd')
  const { byId } = engine.store.payouts
  const payout = byId.get(lost)!
  byId.delete(lost)
  moveClock(engine, 2 * SETTLE_DELAY_MS)
  expect(failures).toEqual([[`Error: No such payout: '${lost}'`, lost]])
  expect(get(engine, `payouts/${other}`).status).toBe('paid')
  expect(nextDueMs(engine)).toBe(START_MS + SETTLE_DELAY_MS + RETRY_DELAY_MS)

  byId.set(lost, payout)
  for (const each of [engine, replayed(lines)]) {
    moveClock(each, RETRY_DELAY_MS)
    expect(get(each, `payouts/${lost}`).status).toBe('paid')
  }
  expect(failures.length).toBe(1)
})

test('a request is answered, and its answer stored, although the change of another object fails', () => {
  // A missing payout is refused; a missing charge is an exception.
  for (const kind of ['payout', 'dispute'] as const) {
    const { engine } = startEngine()
    scheduleAt(engine, { kind, id: 'missing', due_ms: START_MS })
    const [first, second] = ['a', 'a'].map((key) => post(engine, 'topups', 'amount=500&currency=usd', key))
    expect([first!.status, second!.headers['idempotent-replayed']]).toEqual([200, 'true'])
  }
})

test('scheduled changes happen when the host runs them, at their time or later', () => {
  const { engine, host } = startEngine()
  expect(nextDueMs(engine)).toBe(null)
  const id = create(engine, 'payouts', 'amount=500&currency=usd')
  expect(nextDueMs(engine)).toBe(START_MS + SETTLE_DELAY_MS)
  const runAt = (now_ms: number) => {
    host.now_ms = now_ms
    runDue(engine, now_ms)
    return engine.store.payouts.byId.get(id)!.status
  }
  expect(runAt(START_MS + SETTLE_DELAY_MS - 1)).toBe('pending')
  expect(runAt(START_MS + SETTLE_DELAY_MS + 5)).toBe('in_transit')
  expect(nextDueMs(engine)).toBe(START_MS + 2 * SETTLE_DELAY_MS + 5)
  expect(runAt(START_MS + 2 * SETTLE_DELAY_MS + 5)).toBe('paid')
  expect(nextDueMs(engine)).toBe(null)
})

test('a request first performs what is due', () => {
  const { engine, host } = startEngine()
  const id = create(engine, 'topups', 'amount=500&currency=usd')
  host.now_ms += SETTLE_DELAY_MS
  expect(get(engine, `topups/${id}`).status).toBe('succeeded')
})

test('a capture or a cancellation removes the expiry of the hold, and a final status the next one', () => {
  const { engine } = startEngine()
  const [captured, canceled] = [
    create(engine, 'payment_intents', HOLD),
    create(engine, 'payment_intents', HOLD),
  ]
  const payout = create(engine, 'payouts', 'amount=500&currency=usd')
  const topup = create(engine, 'topups', 'amount=500&currency=usd')
  expect(engine.schedule.byKey.size).toBe(4)
  const paths = [
    `payment_intents/${captured}/capture`,
    `payment_intents/${canceled}/cancel`,
    `payouts/${payout}/cancel`,
    `topups/${topup}/cancel`,
  ]
  expect(paths.map((path) => post(engine, path).status)).toEqual([200, 200, 200, 200])
  expect(engine.schedule.byKey.size).toBe(0)
})

test('a clock that is moved forward performs everything that becomes due, in order and each at its own time', () => {
  const { engine } = startEngine({ late_return_ms: 2 * DAY_MS })
  create(engine, 'payment_intents', HOLD)
  create(engine, 'payouts', 'amount=500&currency=usd&destination=ba_lateReturn')
  const before = eventsOf(engine).length
  moveClock(engine, 8 * DAY_MS)
  const DAY_S = DAY_MS / 1000
  expect(eventsOf(engine).slice(before)).toEqual([
    ['payout.updated', 0],
    ['payout.paid', 0],
    ['payout.failed', 2 * DAY_S],
    ['charge.expired', 7 * DAY_S],
    ['charge.refunded', 7 * DAY_S],
    ['payment_intent.canceled', 7 * DAY_S],
  ])
  expect([nowMs(engine), nextDueMs(engine)]).toEqual([START_MS + 8 * DAY_MS, null])
})

test('a clock that follows the clock of a tenant performs everything on its way, once, and never goes back', () => {
  const { engine, host } = startEngine()
  const intent = create(engine, 'payment_intents', HOLD)
  const before = eventsOf(engine).length
  followClock(engine, 6 * DAY_MS)
  expect(eventsOf(engine).slice(before)).toEqual([])
  for (const offset_ms of [8 * DAY_MS, 8 * DAY_MS, DAY_MS]) followClock(engine, offset_ms)
  expect(
    eventsOf(engine)
      .slice(before)
      .map(([type]) => type),
  ).toEqual(['charge.expired', 'charge.refunded', 'payment_intent.canceled'])
  expect(get(engine, `payment_intents/${intent}`).status).toBe('canceled')
  expect(nowMs(engine)).toBe(START_MS + 8 * DAY_MS)
  // What the passing of real time makes due is performed, too.
  const topup = create(engine, 'topups', 'amount=500&currency=usd')
  host.now_ms += SETTLE_DELAY_MS
  followClock(engine, 8 * DAY_MS)
  expect(engine.store.topups.byId.get(topup)!.status).toBe('succeeded')
})

test('an engine whose clock moves only deadlines stores, lists and replays by the real time', () => {
  const { engine, host } = startEngine({ moves_records: false })
  const [START_S, DAY_S] = [START_MS / 1000, DAY_MS / 1000]
  const first = post(engine, 'payment_intents', HOLD, 'a')
  followClock(engine, 5 * DAY_MS)
  const replay = post(engine, 'payment_intents', HOLD, 'a')
  expect([replay.headers['idempotent-replayed'], replay.body]).toEqual(['true', first.body])
  const intent = create(engine, 'payment_intents', HOLD)
  const payout = create(engine, 'payouts', 'amount=500&currency=usd')
  expect(get(engine, `payment_intents/${intent}`)).toMatchObject({ created: START_S })
  expect([...engine.store.charges.byId.values()].map(({ capture_before }) => capture_before)).toEqual([
    START_S + 7 * DAY_S,
    START_S + 12 * DAY_S,
  ])
  expect(get(engine, `payouts/${payout}`)).toMatchObject({
    created: START_S,
    arrival_date: START_S + 7 * DAY_S,
  })
  followClock(engine, 8 * DAY_MS)
  expect(eventsOf(engine).filter(([type]) => type === 'charge.expired')).toEqual([['charge.expired', 0]])
  expect(get(engine, 'payment_intents', `created[gt]=${START_S}`).data).toEqual([])
  host.now_ms += DAY_MS
  expect(post(engine, 'payment_intents', HOLD, 'a').headers['idempotent-replayed']).toBeUndefined()
})

test('a clock that is moved backward keeps delays, and the times at which holds expire', () => {
  const { engine, lines } = startEngine()
  moveClock(engine, DAY_MS)
  create(engine, 'payment_intents', HOLD)
  const payout = create(engine, 'payouts', 'amount=500&currency=usd')
  moveClock(engine, -DAY_MS)
  for (const each of [engine, replayed(lines)]) {
    expect(nextDueMs(each)).toBe(START_MS + SETTLE_DELAY_MS)
    moveClock(each, 7 * DAY_MS)
    expect(get(each, `payouts/${payout}`).status).toBe('paid')
    expect(eventsOf(each).map(([type]) => type)).not.toContain('charge.expired')
    moveClock(each, DAY_MS)
    expect(eventsOf(each).map(([type]) => type)).toContain('charge.expired')
  }
})

/** An engine with every kind of scheduled change, with answers of keys and with a change that was removed. */
function startBusyEngine() {
  const started = startEngine({ isSubscribed: (type) => type.startsWith('payment_intent.') })
  const { engine } = started
  moveClock(engine, 5000)
  const hold = create(engine, 'payment_intents', HOLD)
  create(engine, 'payment_intents', SALE.replace('visa', 'createDispute'))
  create(engine, 'payouts', 'amount=500&currency=usd')
  create(engine, 'topups', 'amount=500&currency=usd&source=src_fails')
  const { id } = JSON.parse(post(engine, 'identity/verification_sessions', 'type=document').body)
  post(engine, `identity/verification_sessions/${id}/redact`)
  post(engine, `payment_intents/${hold}/capture`, 'amount_to_capture=300&expand[]=latest_charge', 'captured')
  post(engine, 'payment_intents', HOLD.replace('visa', 'chargeDeclined'), 'declined')
  create(engine, 'payment_intents', HOLD)
  markDelivered(engine, engine.events.list[0]!)
  return started
}

/** What callers see of an engine. */
function shownBy(engine: Engine) {
  const lists = 'payment_intents charges refunds payouts topups disputes events'.split(' ')
  return lists.map((path) => get(engine, path, 'limit=100'))
}

test('the journal contains the whole state', () => {
  const { engine, lines } = startBusyEngine()
  const copy = replayed(lines)
  expect(shownBy(copy)).toEqual(shownBy(engine))
  expect(engine.events.list.map(({ pending }) => pending)).toContain(true)
  expect(copy.events.list.map(({ pending }) => pending)).toEqual(
    engine.events.list.map(({ pending }) => pending),
  )
  expect([copy.store, copy.idempotency]).toEqual([engine.store, engine.idempotency])
  expect([...copy.idempotency.answers.keys()]).toEqual(['captured', 'declined'])
  expect(nowMs(copy)).toBe(nowMs(engine))
  const changes = ({ schedule }: Engine) =>
    [...schedule.byKey.values()].map(({ kind, id, due_ms }) => ({ kind, id, due_ms }))
  expect(changes(engine).map(({ kind }) => kind)).toEqual(['dispute', 'payout', 'topup', 'redaction', 'hold'])
  expect(changes(copy)).toEqual(changes(engine))
  // A journal that is complete needs no more changes.
  resumeChanges(copy)
  expect(changes(copy)).toEqual(changes(engine))

  // The deadline of the dispute is the last change.
  for (const each of [engine, copy]) moveClock(each, 10 * DAY_MS)
  const outcomes = (each: Engine): string[] =>
    shownBy(each).flatMap(({ data }) => data.map(({ status }: { status?: string }) => status))
  expect(outcomes(copy)).toEqual(outcomes(engine))
  expect(eventsOf(copy)).toEqual(eventsOf(engine))
  expect(nextDueMs(copy)).toBe(null)
})

/** The whole state of an engine, with the orders that matter. */
function stateOf({ store, events, idempotency, schedule, clock }: Engine) {
  return {
    store,
    events: events.list,
    answers: [...idempotency.answers],
    changes: [...schedule.byKey.values()].map(({ kind, id, due_ms }) => ({ kind, id, due_ms })),
    offset_ms: clock.offset_ms,
  }
}

type Started = ReturnType<typeof startEngine>

/** Requests, deliveries and the passing of time. Requests concern the newest object, and may be refused. */
const STEPS: Record<string, (started: Started) => unknown> = {
  hold: ({ engine }) => post(engine, 'payment_intents', HOLD),
  sale: ({ engine }) => post(engine, 'payment_intents', SALE, 'sale'),
  disputed: ({ engine }) => post(engine, 'payment_intents', SALE.replace('visa', 'createDispute')),
  declined: ({ engine }) =>
    post(engine, 'payment_intents', HOLD.replace('visa', 'chargeDeclined'), 'declined'),
  update: ({ engine }) =>
    post(engine, `payment_intents/${engine.store.intents.ids.at(-1)}`, 'metadata[a]=1&description=b'),
  capture: ({ engine }) =>
    post(
      engine,
      `payment_intents/${engine.store.intents.ids.at(-1)}/capture`,
      'amount_to_capture=300&expand[]=latest_charge',
      'capture',
    ),
  cancel: ({ engine }) => post(engine, `payment_intents/${engine.store.intents.ids.at(-1)}/cancel`),
  refund: ({ engine }) => post(engine, 'refunds', `payment_intent=${engine.store.intents.ids.at(-1)}`),
  evidence: ({ engine }) =>
    post(engine, `disputes/${engine.store.disputes.ids.at(-1)}`, 'evidence[product_description]=a'),
  accept: ({ engine }) => post(engine, `disputes/${engine.store.disputes.ids.at(-1)}/close`),
  payout: ({ engine }) =>
    post(engine, 'payouts', 'amount=500&currency=usd&destination=ba_lateReturn', 'payout'),
  cancel_payout: ({ engine }) => post(engine, `payouts/${engine.store.payouts.ids.at(-1)}/cancel`),
  transfer: ({ engine }) => post(engine, 'transfers', 'amount=500&currency=usd&destination=acct_1'),
  reversal: ({ engine }) =>
    post(engine, `transfers/${engine.store.transfers.ids.at(-1)}/reversals`, 'amount=9'),
  topup: ({ engine }) => post(engine, 'topups', 'amount=500&currency=usd'),
  cancel_topup: ({ engine }) => post(engine, `topups/${engine.store.topups.ids.at(-1)}/cancel`),
  session: ({ engine }) => post(engine, 'identity/verification_sessions', 'type=document', 'session'),
  redact: ({ engine }) =>
    post(engine, `identity/verification_sessions/${engine.store.sessions.ids.at(-1)}/redact`),
  delivery({ engine }) {
    const event = engine.events.list.find(({ pending }) => pending)
    if (event) markDelivered(engine, event)
  },
  moment({ engine, host }) {
    host.now_ms += SETTLE_DELAY_MS
    runDue(engine, nowMs(engine))
  },
  forward: ({ engine }) => moveClock(engine, DAY_MS),
  backward: ({ engine }) => moveClock(engine, -DAY_MS),
}

test('after any requests and changes of the clock, the journal restores the engine', () => {
  fc.assert(
    fc.property(fc.array(fc.constantFrom(...Object.keys(STEPS)), { maxLength: 40 }), (names) => {
      const started = startEngine({ isSubscribed: () => true })
      for (const name of names) STEPS[name]!(started)
      const { engine, lines, host } = started
      const copy = replayed(lines, host.now_ms)
      expect(stateOf(copy)).toEqual(stateOf(engine))
      // The journal is complete, so that nothing has to be scheduled.
      resumeChanges(copy)
      expect(stateOf(copy)).toEqual(stateOf(engine))
    }),
  )
})

test('a journal of a version without scheduled changes is read, and its changes happen after the usual delay', () => {
  const { engine, lines } = startBusyEngine()
  const copy = replayed(lines.filter((line) => !line.startsWith('{"scheduled":')))
  expect(nextDueMs(copy)).toBe(null)
  resumeChanges(copy)
  const kinds = ({ schedule }: Engine) => [...schedule.byKey.values()].map(({ kind }) => kind).sort()
  expect(kinds(copy)).toEqual(kinds(engine))
  expect(nextDueMs(copy)).toBe(nowMs(copy) + SETTLE_DELAY_MS)
  for (const each of [engine, copy]) moveClock(each, 8 * DAY_MS)
  const types = (each: Engine) =>
    eventsOf(each)
      .map(([type]) => type)
      .sort()
  expect(types(copy)).toEqual(types(engine))
})

test('a journal that ends within a change is completed, and no change happens twice', () => {
  const { engine, lines } = startEngine()
  const payout = create(engine, 'payouts', 'amount=500&currency=usd')
  moveClock(engine, DAY_MS)
  for (let length = 1; length <= lines.length; length++) {
    const copy = replayed(lines.slice(0, length))
    resumeChanges(copy)
    moveClock(copy, 2 * DAY_MS)
    expect(get(copy, `payouts/${payout}`).status).toBe('paid')
    const types = eventsOf(copy).map(([type]) => type)
    expect(types.length).toBe(new Set(types).size)
  }
})

test('the hooks report events, effects and scheduled changes, and can omit events', () => {
  const events: StoredEvent[] = []
  const effects: Effect[] = []
  let omits = false
  let scheduled = 0
  const { engine } = startEngine({
    omitsEvent: () => omits,
    isSubscribed: (type) => type === 'charge.succeeded',
    onEvent: (event) => void events.push(event),
    onEffect: (effect) => void effects.push(effect),
    onScheduled: () => void scheduled++,
  })
  const id = create(engine, 'payment_intents', HOLD)
  expect(events.map(({ type, pending }) => [type, pending])).toEqual([
    ['payment_intent.created', false],
    ['charge.succeeded', true],
    ['payment_intent.amount_capturable_updated', false],
  ])
  expect(scheduled).toBe(1)
  omits = true
  post(engine, `payment_intents/${id}/capture`, 'amount_to_capture=300')
  expect(events).toHaveLength(3)
  expect(effects).toMatchObject([
    { effect: 'authorize', payment_intent: id, amount: 1000, currency: 'usd', source: 'api' },
    { effect: 'capture', payment_intent: id, amount: 300 },
  ])
})

test('the schedule returns changes in order of their time, then in order of scheduling', () => {
  const id = fc.integer({ min: 0, max: 30 }).map(String)
  const step = fc.record({ id, due_ms: fc.option(fc.integer({ min: 0, max: 20 }), { nil: null }) })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), fc.boolean(), (steps, drains) => {
      const schedule = emptySchedule()
      let expected: DueChange[] = []
      for (const { id, due_ms } of steps) {
        expected = expected.filter((each) => each.id !== id)
        if (due_ms === null) removeChange(schedule, 'payout', id)
        else {
          putChange(schedule, { kind: 'payout', id, due_ms })
          expected.push({ kind: 'payout', id, due_ms })
        }
        expect(findChange(schedule, 'payout', id)?.due_ms ?? null).toBe(due_ms)
        // Reading the earliest change in between removes obsolete entries.
        if (drains) earliestChange(schedule)
      }
      const found: DueChange[] = []
      for (let first = earliestChange(schedule); first !== null; first = earliestChange(schedule)) {
        found.push({ kind: first.kind, id: first.id, due_ms: first.due_ms })
        removeChange(schedule, first.kind, first.id)
      }
      expect(found).toEqual(expected.toSorted((a, b) => a.due_ms - b.due_ms))
    }),
  )
})

test('the schedule forgets replaced changes', () => {
  const schedule = emptySchedule()
  for (let n = 0; n < 10_000; n++) putChange(schedule, { kind: 'hold', id: String(n % 7), due_ms: -n })
  expect(schedule.heap.length).toBeLessThan(1_100)
  expect(earliestChange(schedule)).toMatchObject({ id: String(9_999 % 7), due_ms: -9_999 })
})

test('a search whose value has no end is refused, also after many backslashes', () => {
  const { engine } = startEngine()
  const search = (value: string) =>
    get(engine, 'payment_intents/search', `query=${encodeURIComponent(`metadata['a']:'${value}`)}`)
  const backslashes = '\\'.repeat(45)
  expect(search(backslashes).error.param).toBe('query')
  expect(search(`${backslashes}'`).error.param).toBe('query')
  expect(search(`${backslashes}\\'`).data).toEqual([])
})

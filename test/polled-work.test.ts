// Which statements the loops for rare work run while there is none.
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test, vi } from 'vitest'
import type { Sql } from '#core/db.ts'
import { findPolledWork, type OperatorWork, type PolledWork } from '#domain/polled-work.ts'
import { pollWork } from '#workers/polled-work.ts'
import { startOperatorActs } from '#workers/recurring/operator-acts.ts'
import { startProposals } from '#workers/recurring/proposals.ts'
import { compareWaitingNotifications } from '#workers/recurring/waiting.ts'

const NOTHING: PolledWork = {
  recoveries: false,
  deliveries: false,
  notifications: false,
  sandboxes: false,
  test_clocks: false,
}

/** A connection that answers each statement with `found`, and records the statements and transactions. */
function connectionOf(found: PolledWork) {
  const statements: string[] = []
  const tagged = (strings: TemplateStringsArray) => {
    statements.push(strings.join(' '))
    return Promise.resolve([found])
  }
  const sql = Object.assign(tagged, {
    begin() {
      statements.push('begin')
      return Promise.resolve(false)
    },
  })
  return { sql: sql as unknown as Sql, statements }
}

test('the loops of all kinds share one statement', async () => {
  const { sql, statements } = connectionOf({ ...NOTHING, recoveries: true })
  const hasWork = pollWork(() => findPolledWork(sql))
  const kinds = Object.keys(NOTHING) as (keyof PolledWork)[]
  const answers = await Promise.all(kinds.map(async (kind) => [kind, await hasWork(kind)]))
  expect(Object.fromEntries(answers)).toEqual({ ...NOTHING, recoveries: true })
  expect(statements).toHaveLength(1)
})

test('answers that repeatedly take long are shared for longer, and a failure is not', async () => {
  const clock = vi.spyOn(performance, 'now').mockReturnValue(0)
  onTestFinished(() => clock.mockRestore())
  let asked = 0
  /** How many questions were asked until this time, if each takes 100 ms. */
  const askedAt = async (at_ms: number, fails = false) => {
    clock.mockReturnValue(at_ms)
    const hasAnswer = hasWork('recoveries').catch(() => 'failed')
    clock.mockReturnValue(at_ms + 100)
    answer(fails)
    return [asked, await hasAnswer]
  }
  let answer: (fails: boolean) => void = () => {}
  const hasWork = pollWork<PolledWork>(() => {
    asked++
    return new Promise((resolve, reject) => {
      answer = (fails) => (fails ? reject(new Error('no answer')) : resolve(NOTHING))
    })
  })
  expect([await askedAt(0), await askedAt(300), await askedAt(400)]).toEqual([
    [1, false],
    [1, false],
    [2, false],
  ])
  // Two answers took 100 ms: the next question is asked after 50 times that.
  expect([await askedAt(5_300), await askedAt(5_400, true), await askedAt(5_800)]).toEqual([
    [2, false],
    [3, 'failed'],
    [4, false],
  ])
})

test.each([
  ['for ten seconds at most', undefined, 10_000],
  ['as usual where an operator waits', 0, 400],
])('answers that repeatedly take long are shared %s', async (_, max_shared_ms, shared_ms) => {
  const clock = vi.spyOn(performance, 'now').mockReturnValue(0)
  onTestFinished(() => clock.mockRestore())
  let asked = 0
  const hasWork = pollWork<PolledWork>(() => {
    asked += 1
    clock.mockReturnValue(performance.now() + 300)
    return Promise.resolve(NOTHING)
  }, max_shared_ms)
  const askedAt = async (at_ms: number) => {
    clock.mockReturnValue(at_ms)
    await hasWork('recoveries')
    return asked
  }
  expect([await askedAt(0), await askedAt(400)]).toEqual([1, 2])
  expect([await askedAt(400 + shared_ms - 1), await askedAt(400 + shared_ms)]).toEqual([2, 3])
})

test('loops without work run no statement of their own', async () => {
  const { sql, statements } = connectionOf(NOTHING)
  const asked = new Set<keyof PolledWork | keyof OperatorWork>()
  const hasWork = async (kind: keyof PolledWork | keyof OperatorWork) => {
    asked.add(kind)
    return false
  }
  const database = { isCurrent: () => true, track: (work: () => Promise<void>) => work() }
  const context = { sql, log: { warn: () => {} }, database } as never
  const loops = [
    startOperatorActs(context, hasWork),
    startProposals(context, hasWork),
    compareWaitingNotifications(context, hasWork),
  ]
  while (asked.size < loops.length) await sleep(10)
  await Promise.all(loops.map((loop) => loop.close()))
  expect(statements).toEqual([])
})

// Watches the calls to providers: counts those that fail, notices which providers do not answer, and logs one line a minute for
// each of these, with the variables to check. A call that is answered is written nowhere.
import { PROVIDER_FACTS } from '#core/config/providers.ts'
import type { Sql } from '#core/db.ts'
import type { Log } from '#core/log.ts'
import {
  CALL_FAILURES,
  checkOf,
  problemOf,
  writeOutages,
  type CallFailure,
  type FailedCalls,
} from '#domain/operations/provider-outages.ts'
import type { EndedCall } from '#providers/http.ts'
import { every, type Loop } from './clock.ts'

const REPORT_MS = 5_000
const LOG_EVERY_MS = 60_000
/** An outage that is over so soon is not logged. */
const SHORT_MS = 5_000
/**
 * A call that takes longer counts as not answered before it ends, unless another has been answered since it began. One whose
 * deadline leaves it more than a minute may take until then: an answer that takes so long is none that is late.
 */
const LATE_MS = 40_000
const lateAfter = (deadline_ms: number) => (deadline_ms > 60_000 ? deadline_ms : LATE_MS)
/** An outage during which no call fails any more is over after this long. */
const FORGOTTEN_MS = 15 * 60_000
/** So is one of calls that passed their deadlines: another worker may get answers, and no job that is retried says otherwise. */
const LATE_FORGOTTEN_MS = 2 * 60_000
/** As the log says it. */
const PROBLEM_WORDS = { credentials: 'refuses our credentials', no_answer: 'does not answer' }
/** Failures that could not be written are kept for so many providers, minutes and outcomes. */
const MOST_KEPT = 500

type Watched = {
  /** Since no call was answered; null while calls are. */
  outage: { since: number; failed_at: number; outcome: CallFailure; logged: boolean } | null
  answered_at: number
  /** When the attempts that wait for an answer began to. */
  waiting: Set<{ began_at: number; late_at: number }>
  logged_at: number
  /** Calls that failed since. */
  unlogged: number
}

export type ProviderWatch = {
  /** A call has ended. */
  ended(provider: string, call: EndedCall): void
  /** An attempt sends its call, which has this deadline; what is returned is called when the attempt ends. */
  sent(provider: string, deadline_ms: number): () => void
  /** Writes what was seen every few seconds, until it is closed. */
  report(sql: Sql, worker: string): Loop
}

export function watchProviders(log: Log): ProviderWatch {
  const watched = new Map<string, Watched>()
  let failed = new Map<string, FailedCalls>()
  let written = false

  function of(provider: string): Watched {
    const known = watched.get(provider)
    if (known !== undefined) return known
    const state = { outage: null, answered_at: 0, waiting: new Set<never>(), logged_at: 0, unlogged: 0 }
    watched.set(provider, state)
    return state
  }

  function fail(provider: string, outcome: CallFailure, since: number): void {
    const state = of(provider)
    const failed_at = Date.now()
    // One that refuses our credentials after it did not answer has another problem since then.
    const same = state.outage !== null && problemOf(state.outage.outcome) === problemOf(outcome)
    state.outage = { since, logged: false, ...(same && state.outage), failed_at, outcome }
    warn(provider, state)
  }

  function count(provider: string, outcome: CallFailure): void {
    of(provider).unlogged += 1
    const at = new Date(Math.floor(Date.now() / 60_000) * 60_000).toISOString()
    const key = `${provider} ${at} ${outcome}`
    const known = failed.get(key)
    if (known !== undefined) known.count += 1
    else if (failed.size < MOST_KEPT) failed.set(key, { provider, at, outcome, count: 1 })
  }

  function warn(provider: string, state: Watched): void {
    const now = Date.now()
    const { outage, logged_at, unlogged } = state
    if (outage === null || now - logged_at < LOG_EVERY_MS) return
    if (outage.outcome !== 'misconfigured' && now - outage.since < SHORT_MS) return
    const check = checkOf(provider, outage.outcome)
    const problem = PROBLEM_WORDS[problemOf(outage.outcome)]
    log.warn(
      { provider, outcome: outage.outcome, failed: unlogged, since: new Date(outage.since).toISOString() },
      `${titleOf(provider)} ${problem}${check.length > 0 ? `: check ${check.join(' and ')}` : ''}`,
    )
    Object.assign(state, { logged_at: now, unlogged: 0 })
    outage.logged = true
  }

  function answer(provider: string): void {
    const state = of(provider)
    state.answered_at = Date.now()
    if (state.outage?.logged === true) log.info({ provider }, `${titleOf(provider)} answers again`)
    state.outage = null
  }

  /** What the passing of time makes of it. */
  function look(): void {
    const now = Date.now()
    for (const [provider, state] of watched) {
      const late = [...state.waiting].find(
        ({ began_at, late_at }) => now > late_at && state.answered_at < began_at,
      )
      if (late !== undefined) fail(provider, state.outage?.outcome ?? 'late', late.began_at)
      const forgotten_ms = state.outage?.outcome === 'late' ? LATE_FORGOTTEN_MS : FORGOTTEN_MS
      if (state.outage !== null && now - state.outage.failed_at > forgotten_ms) state.outage = null
      warn(provider, state)
    }
  }

  async function write(sql: Sql, worker: string): Promise<void> {
    const outages = [...watched].flatMap(([provider, { outage }]) =>
      outage === null
        ? []
        : [{ provider, outcome: outage.outcome, lasts_ms: Math.round(Date.now() - outage.since) }],
    )
    if (failed.size === 0 && outages.length === 0 && !written) return
    const counted = failed
    failed = new Map()
    try {
      await writeOutages(sql, worker, { failed: [...counted.values()], outages })
      written = outages.length > 0
    } catch (error) {
      for (const [key, calls] of counted)
        failed.set(key, { ...calls, count: calls.count + (failed.get(key)?.count ?? 0) })
      throw error
    }
  }

  return {
    ended(provider, { outcome, duration_ms, health }) {
      if (health === 'unknown') return
      const failure = CALL_FAILURES.find((each) => each === outcome)
      if (failure === undefined || health === 'answers') return answer(provider)
      count(provider, failure)
      const began_at = Date.now() - duration_ms
      if (health !== 'late') fail(provider, failure, began_at)
      else if (of(provider).answered_at < began_at) fail(provider, 'late', began_at)
    },
    sent(provider, deadline_ms) {
      const { waiting } = of(provider)
      const began_at = Date.now()
      const call = { began_at, late_at: began_at + lateAfter(deadline_ms) }
      waiting.add(call)
      return () => void waiting.delete(call)
    },
    report(sql, worker) {
      const loop = every(
        log,
        'the report on providers',
        () => REPORT_MS,
        async () => {
          look()
          await write(sql, worker)
        },
      )
      return {
        async close() {
          await loop.close()
          // A worker that has ended says nothing about providers.
          for (const state of watched.values()) state.outage = null
          await write(sql, worker).catch(() => {})
        },
      }
    },
  }
}

function titleOf(provider: string): string {
  return PROVIDER_FACTS[provider]?.title ?? provider
}

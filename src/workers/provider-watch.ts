// Watches the calls to providers: counts those that fail, notices which providers do not answer, and logs one line a minute for
// each of these, with the variables to check. A call that is answered is written nowhere.
import { PROVIDER_FACTS } from '#core/config/providers.ts'
import type { Sql } from '#core/db.ts'
import type { Log } from '#core/log.ts'
import {
  CALL_FAILURES,
  checkOf,
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
/** A call that takes longer counts as not answered before it ends, unless another has been answered since it began. */
const LATE_MS = 40_000
/** An outage during which no call fails any more is over after this long. */
const FORGOTTEN_MS = 15 * 60_000
/** Failures that could not be written are kept for so many providers, minutes and outcomes. */
const MOST_KEPT = 500

type Watched = {
  /** Since no call was answered; null while calls are. */
  outage: { since: number; failed_at: number; outcome: CallFailure; logged: boolean } | null
  answered_at: number
  /** When the attempts that wait for an answer began to. */
  waiting: Set<{ began_at: number }>
  logged_at: number
  /** Calls that failed since. */
  unlogged: number
}

export type ProviderWatch = {
  /** A call has ended. */
  ended(provider: string, call: EndedCall): void
  /** An attempt sends its call; what is returned is called when the attempt ends. */
  sent(provider: string): () => void
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
    state.outage = { since, logged: false, ...state.outage, failed_at, outcome }
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
    const problem = outage.outcome === 'misconfigured' ? 'refuses our credentials' : 'does not answer'
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
      const [oldest] = state.waiting
      if (oldest !== undefined && now - oldest.began_at > LATE_MS && state.answered_at < oldest.began_at)
        fail(provider, state.outage?.outcome ?? 'late', oldest.began_at)
      if (state.outage !== null && now - state.outage.failed_at > FORGOTTEN_MS) state.outage = null
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
      fail(provider, failure, Date.now() - duration_ms)
    },
    sent(provider) {
      const { waiting } = of(provider)
      const call = { began_at: Date.now() }
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

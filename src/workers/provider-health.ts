// How one provider answers this worker, and the log lines about it: one a minute while it does not.
import { PROVIDER_FACTS } from '#core/config/providers.ts'
import type { Log } from '#core/log.ts'
import { variablesToCheck, problemOf, type CallFailure } from '#domain/operations/provider-outages.ts'

const LOG_INTERVAL_MS = 60_000
/** An outage that is over so soon is not logged. */
const MIN_LOGGED_OUTAGE_MS = 5_000
/**
 * A call that takes longer counts as not answered before it ends, unless another has been answered since it began. One whose
 * deadline leaves it more than a minute may take until then: an answer that takes so long is none that is late.
 */
const LATE_MS = 40_000
const lateAfter = (deadline_ms: number) => (deadline_ms > 60_000 ? deadline_ms : LATE_MS)
/** An outage during which no call fails any more is over after this long. */
const OUTAGE_EXPIRY_MS = 15 * 60_000
/** So is one of calls that passed their deadlines: another worker may get answers, and no job that is retried says otherwise. */
const LATE_OUTAGE_EXPIRY_MS = 2 * 60_000
/** In the words of the log. */
const PROBLEM_TEXTS = { credentials: 'refuses our credentials', no_answer: 'does not answer' }

/** Since no call was answered. */
type CallOutage = { since: number; failed_at: number; outcome: CallFailure; logged: boolean }

export type CallHealth = {
  /** Null while calls are answered. */
  outage(): CallOutage | null
  /** Counts a call that failed for the next line of the log. */
  count(): void
  /** No call has been answered since then. */
  fail(outcome: CallFailure, since: number): void
  answer(): void
  wasAnsweredSince(at: number): boolean
  /** An attempt sends its call, which has this deadline; what is returned is called when the attempt ends. */
  sent(deadline_ms: number): () => void
  /** Finds calls that are late, and outages that are over because time has passed. */
  check(): void
  forget(): void
}

export function createProviderHealth(provider: string, log: Log): CallHealth {
  const title = PROVIDER_FACTS[provider]?.title ?? provider
  /** The attempts that wait for an answer. */
  const waiting = new Set<{ began_at: number; late_at: number }>()
  let outage: CallOutage | null = null
  let answered_at = 0
  let logged_at = 0
  let unlogged = 0

  function warn(): void {
    const now = Date.now()
    if (outage === null || now - logged_at < LOG_INTERVAL_MS) return
    if (outage.outcome !== 'misconfigured' && now - outage.since < MIN_LOGGED_OUTAGE_MS) return
    const check = variablesToCheck(provider, outage.outcome)
    const problem = PROBLEM_TEXTS[problemOf(outage.outcome)]
    log.warn(
      { provider, outcome: outage.outcome, failed: unlogged, since: new Date(outage.since).toISOString() },
      `${title} ${problem}${check.length > 0 ? `: check ${check.join(' and ')}` : ''}`,
    )
    logged_at = now
    unlogged = 0
    outage.logged = true
  }

  function fail(outcome: CallFailure, since: number): void {
    // One that refuses our credentials after it did not answer has another problem since then.
    const same = outage !== null && problemOf(outage.outcome) === problemOf(outcome)
    outage = { since, logged: false, ...(same && outage), failed_at: Date.now(), outcome }
    warn()
  }

  return {
    outage: () => outage,
    count() {
      unlogged += 1
    },
    fail,
    answer() {
      answered_at = Date.now()
      if (outage?.logged === true) log.info({ provider }, `${title} answers again`)
      outage = null
    },
    wasAnsweredSince: (at) => answered_at >= at,
    sent(deadline_ms) {
      const began_at = Date.now()
      const call = { began_at, late_at: began_at + lateAfter(deadline_ms) }
      waiting.add(call)
      return () => void waiting.delete(call)
    },
    check() {
      const now = Date.now()
      const late = [...waiting].find(({ began_at, late_at }) => now > late_at && answered_at < began_at)
      if (late !== undefined) fail(outage?.outcome ?? 'late', late.began_at)
      const forgotten_ms = outage?.outcome === 'late' ? LATE_OUTAGE_EXPIRY_MS : OUTAGE_EXPIRY_MS
      if (outage !== null && now - outage.failed_at > forgotten_ms) outage = null
      warn()
    },
    forget() {
      outage = null
    },
  }
}

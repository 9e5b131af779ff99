// The health of one provider, or of one operation of a provider, as this worker sees it, and its log lines: one a
// minute while calls fail.
import type { Config } from '#core/config.ts'
import type { Log } from '#core/log.ts'
import { adviceText, outageText, problemOf, type CallFailure } from '#domain/operations/outage-texts.ts'

const LOG_INTERVAL_MS = 60_000
/** A shorter outage is not logged. */
const MIN_LOGGED_OUTAGE_MS = 5_000
const RECENT_ANSWER_MS = 60_000
/**
 * A call that takes longer than this counts as unanswered while it still runs, unless another call was answered after
 * it began. A deadline above one minute replaces this time.
 */
const LATE_MS = 40_000
const lateAfter = (deadline_ms: number) => (deadline_ms > 60_000 ? deadline_ms : LATE_MS)
/** An outage ends this long after its last failed call. */
const OUTAGE_EXPIRY_MS = 15 * 60_000
/**
 * An outage whose calls exceeded their deadlines ends this long after its last failed call. The time is shorter,
 * because another worker may retry the jobs of these calls and get the answers.
 */
const LATE_OUTAGE_EXPIRY_MS = 2 * 60_000

/** An outage: the time during which no call was answered. Times are Unix milliseconds. */
type CallOutage = {
  since: number
  failed_at: number
  /** When the last failed call began. */
  began_at: number
  outcome: CallFailure
  logged: boolean
  /** When another operation of the provider was first answered during the outage. */
  other_answered_at: number | null
}

export type CallHealth = {
  /** The present outage; null while calls are answered. */
  outage(): CallOutage | null
  /** Whether there is an outage in which a call failed after another operation was answered. */
  isPartial(): boolean
  /** Counts a failed call for the next log line. */
  count(): void
  /** Records that no call was answered since `since`, when the failed call began. */
  fail(outcome: CallFailure, since: number): void
  answer(): void
  /** Records that the provider answered another operation. */
  answerOther(): void
  wasAnsweredSince(at: number): boolean
  /** Records a sent call with its deadline; call the returned function when the attempt at its job ends. */
  sent(deadline_ms: number): () => void
  /** Finds late calls, and ends expired outages. */
  check(): void
  forget(): void
}

/** The outage of an operation is logged only while it is partial: otherwise the outage of the provider is logged. */
export function createProviderHealth(
  provider: string,
  operation: string | null,
  { log, config }: { log: Log; config: Config },
): CallHealth {
  const fields = { provider, ...(operation !== null && { operation }) }
  const operations = operation === null ? [] : [operation]
  /** The calls that wait for an answer. */
  const waiting = new Set<{ began_at: number; late_at: number }>()
  let outage: CallOutage | null = null
  let answered_at = 0
  let logged_at = 0
  let unlogged = 0

  const isPartial = () =>
    outage !== null && outage.other_answered_at !== null && outage.began_at > outage.other_answered_at

  function warn(): void {
    const now = Date.now()
    if (outage === null || now - logged_at < LOG_INTERVAL_MS || (operation !== null && !isPartial())) return
    if (unlogged === 0 && outage.failed_at <= logged_at) return
    // Refused credentials are logged at once, unless the provider has just answered another call.
    const is_certain = outage.outcome === 'misconfigured' && now - answered_at > RECENT_ANSWER_MS
    if (!is_certain && now - outage.since < MIN_LOGGED_OUTAGE_MS) return
    const text = outageText(provider, problemOf(outage.outcome), operations)
    log.warn(
      { ...fields, outcome: outage.outcome, failed: unlogged, since: new Date(outage.since).toISOString() },
      `${text}${adviceText(provider, outage.outcome, config)}`,
    )
    logged_at = now
    unlogged = 0
    outage.logged = true
  }

  function fail(outcome: CallFailure, since: number): void {
    // A different problem begins a new outage, for example refused credentials after calls without an answer.
    const same = outage !== null && problemOf(outage.outcome) === problemOf(outcome)
    const first = { since, logged: false, other_answered_at: null }
    outage = { ...first, ...(same && outage), failed_at: Date.now(), began_at: since, outcome }
    warn()
  }

  return {
    outage: () => outage,
    isPartial,
    count() {
      unlogged += 1
    },
    fail,
    answer() {
      answered_at = Date.now()
      if (outage?.logged === true) log.info(fields, outageText(provider, 'ended', operations))
      outage = null
    },
    answerOther() {
      if (outage !== null) outage.other_answered_at ??= Date.now()
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

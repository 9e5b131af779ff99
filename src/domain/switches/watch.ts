// Watches the server of the database: a process works only while the server is the one in use.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Config } from '#core/config.ts'
import { isUnavailable, type Sql } from '#core/db.ts'
import { AppError } from '#core/errors.ts'
import { startHeartbeat, type ProcessFacts } from '#core/heartbeat.ts'
import type { Log } from '#core/log.ts'
import { metrics } from '#core/metrics.ts'
import { renewConnections } from '#core/pool.ts'
import { throttle } from '#core/seldom.ts'
import { untilTick } from '#core/ticks.ts'
import type { Witness } from '#core/witness.ts'
import { createServerChecks } from './checks.ts'
import { findSwitch, type DatabaseSwitch } from './find.ts'
import { HOLDS, type CheckedServer } from './server.ts'

export type DatabaseWatch = {
  /** Whether the server was in use when it was checked in the last seconds, and the database was not sealed. */
  isCurrent(): boolean
  /** Throws `database_unavailable` unless `isCurrent`. */
  assertCurrent(): void
  /**
   * Counts work that may write, until it ends: a seal waits for it. Call `assertCurrent` or `isCurrent` in it, so that
   * work that passes the check is counted.
   */
  track<T>(work: () => Promise<T>): Promise<T>
  /** Like `track`; throws as `assertCurrent` does before the work begins. */
  whileCurrent<T>(work: () => Promise<T>): Promise<T>
  /** Like `whileCurrent`, except that the work also begins if the server has not been checked yet. */
  unlessMoved<T>(work: () => Promise<T>): Promise<T>
  /** Starts the heartbeat of this process. `close` ends it. */
  reportProcess(facts: ProcessFacts): void
  /**
   * Whether jobs wait since a switch, or the server is not in use: meanwhile nothing may expire or be deleted because
   * of its age.
   */
  isHeld(): boolean
  /**
   * What happened later may have been lost by a switch of the last day, in Unix seconds; null: there was none.
   */
  lostSince(): number | null
  /** Whether the database was ever switched. */
  hasSwitched(): boolean
  /** Which witness could not be used when this process last asked it, and why. */
  witnessProblems(): string[]
  close(): Promise<void>
}

const INTERVAL_MS = 1_000
/** The interval until a check succeeds: jobs wait for it after a start of the server. */
const RETRY_INTERVAL_MS = 100
/** The maximum time that a check may go on after `close`. */
const CLOSE_TIMEOUT_MS = 500
/** The maximum time that a starting process waits for the first check. */
const START_TIMEOUT_MS = 5_000
/** After this many failed checks in sequence, the last check counts no more. */
const MAX_FAILURES = 3
/**
 * How long a check counts, from its start: a process that was stopped, or whose checks hang, does not know that another
 * server is in use. The starts of two checks are 3 s apart if a witness does not answer, and each check may wait for
 * the database for 3 s more on a machine that is overloaded.
 */
const MAX_AGE_MS = 10_000

/**
 * Checks the server at once and then every second, and keeps the newest facts in memory, in Redis (`queue`) and at
 * WITNESS_URL. Resolves after the first check, or after 5 s. `queue` null: asks no witness, and keeps them in memory.
 */
export async function watchDatabase(
  config: Config,
  { sql, log, queue }: { sql: Sql; log: Log; queue: Witness | null },
): Promise<DatabaseWatch> {
  const report = createReport(sql, log)
  const checks = createServerChecks(config, { sql, log, queue })
  const { warn, warnOfAge } = createWarnings(log)
  let server: CheckedServer | undefined
  let checked_at = -Infinity
  /** When the database was sealed, by the last check, if a witness remembers it. */
  let sealed_at: string | null = null
  const work = createWorkCounter()
  let heartbeat: { stop(): Promise<void> } | undefined
  /** Why the last check failed. */
  let failure: unknown
  const abort = new AbortController()

  /** Returns whether the server was checked. */
  async function check(): Promise<boolean> {
    const before = server?.switch
    const began_at = performance.now()
    const checked = await checks.check(abort.signal)
    if (checked === undefined) return false
    failure = undefined
    server = checked
    checked_at = began_at
    const { state } = checked
    if (state === 'unchecked' || state === 'unconfirmed') return false
    // Connections that were opened before may lead to the server that was in use before.
    if (state === 'superseded' || checked.switch > (before ?? checked.switch)) renewConnections()
    measureHold(checked)
    await report(checked)
    const is_remembered = await checks.exchange(checked)
    sealed_at = is_remembered ? checked.sealed_at : null
    return true
  }

  async function repeat(): Promise<void> {
    let failures = 0
    while (!abort.signal.aborted) {
      const succeeded = await check().catch((error: unknown) => {
        failure = error
        if (isUnavailable(error)) return false
        warn(error)
        failures += 1
        if (failures === MAX_FAILURES) checked_at = -Infinity
        return false
      })
      if (succeeded) {
        first.resolve()
        failures = 0
      }
      if (succeeded) await untilTick(INTERVAL_MS, abort.signal)
      else await sleep(RETRY_INTERVAL_MS, undefined, { signal: abort.signal }).catch(() => {})
    }
  }

  function currentState(): CheckedServer['state'] | undefined {
    const age_ms = performance.now() - checked_at
    if (server === undefined || age_ms < MAX_AGE_MS) return server?.state
    if (age_ms < Infinity) warnOfAge(age_ms)
    return undefined
  }

  /** When the database was sealed, if this process has noticed it and has no work left; otherwise null. */
  function drainedSeal(): string | null {
    return currentState() === 'sealed' && work.isDone() ? sealed_at : null
  }

  const first = Promise.withResolvers<void>()
  const running = repeat()
  await Promise.race([first.promise, sleep(START_TIMEOUT_MS, undefined, { ref: false })])

  function assertCurrent(): void {
    const state = currentState()
    if (state !== 'current') throw refusalOf(state, failure)
  }

  return {
    isCurrent: () => currentState() === 'current',
    assertCurrent,
    track: work.track,
    whileCurrent: work.trackAfter(assertCurrent),
    unlessMoved: work.trackAfter(() => assertNotMoved(server?.state)),
    reportProcess(facts) {
      heartbeat ??= startHeartbeat({ sql, drainedSeal }, facts)
    },
    isHeld: () => currentState() !== 'current' || server?.hold !== null,
    lostSince: () => (server?.lost_since == null ? null : Date.parse(server.lost_since) / 1000),
    witnessProblems: () => checks.witnessProblems(),
    hasSwitched: () => server !== undefined && server.switch > 0,
    async close() {
      await heartbeat?.stop()
      abort.abort()
      // A check may wait for a database that does not answer.
      await Promise.race([running, sleep(CLOSE_TIMEOUT_MS, undefined, { ref: false })])
    },
  }
}

function createWarnings(log: Log) {
  const warn = throttle(
    (suppressed, err: unknown) =>
      log.warn({ err, suppressed }, 'the server of the database could not be checked'),
    10_000,
  )
  const warnOfAge = throttle(
    (suppressed, age_ms: number) =>
      log.warn(
        { age_ms, suppressed },
        'the last check of the server of the database is too old: accepts and does nothing until it is checked again',
      ),
    10_000,
  )
  return { warn, warnOfAge }
}

/** Counts the pieces of work that may write, until each has ended. */
function createWorkCounter() {
  let running = 0
  const track = async <T>(work: () => Promise<T>): Promise<T> => {
    running += 1
    try {
      return await work()
    } finally {
      running -= 1
    }
  }
  return {
    track,
    trackAfter:
      (assertAdmitted: () => void) =>
      async <T>(work: () => Promise<T>): Promise<T> =>
        await track(async () => {
          assertAdmitted()
          return await work()
        }),
    isDone: () => running === 0,
  }
}

const REFUSALS: Partial<Record<CheckedServer['state'], string>> = {
  superseded: 'The database has moved to another server.',
  sealed: 'The database is sealed, because it is being moved to another server.',
}

/** `failure`: why the last check failed; undefined: it did not. */
function refusalOf(state: CheckedServer['state'] | undefined, failure: unknown): AppError {
  const reason = (state && REFUSALS[state]) ?? 'The server of the database is not checked at present.'
  return new AppError('database_unavailable', {
    message: `${reason} Nothing was accepted: retry later.`,
    cause: failure,
  })
}

function assertNotMoved(state: CheckedServer['state'] | undefined): void {
  if (state !== undefined && state in REFUSALS) throw refusalOf(state, undefined)
}

function measureHold({ hold, recording_since }: CheckedServer): void {
  const present = recording_since === null ? hold : 'recording'
  for (const each of [...HOLDS, 'recording'] as const)
    metrics.jobsHeld.set({ hold: each }, present === each ? 1 : 0)
}

function switchText({ kind, sign }: DatabaseSwitch): string {
  if (kind === 'restore')
    return 'the database has gone back in time: jobs wait until an operator releases them'
  return sign === 'witness'
    ? 'the database has gone back by less than a minute, and may lack what was committed last'
    : 'the database has moved to another server, and may lack what was committed last'
}

/** Reports each switch once for each process, and once that another server is in use. */
function createReport(sql: Sql, log: Log): (server: CheckedServer) => Promise<void> {
  let reported: number | undefined
  let superseded = false
  let sealed = false
  const warnOfRecording = throttle(
    (suppressed, recording_since: string) =>
      log.error(
        { recording_since, suppressed },
        'a switch of the database is not recorded completely, and all jobs wait: if the command that records it was stopped, run it again. See: npm run recover -- status',
      ),
    60_000,
  )
  return async (server) => {
    const { state, recorded, recording_since, switch: number } = server
    if (recording_since !== null) warnOfRecording(recording_since)
    if (state === 'sealed' && !sealed)
      log.warn(
        'the database is sealed, because it is being moved: this process accepts and does nothing. If it is not moved: npm run recover -- seal --undo',
      )
    sealed = state === 'sealed'
    if (state === 'superseded' && !superseded)
      log.error(
        { server },
        'another server of this database is in use: this process accepts and does nothing. If this server shall be used, run: npm run recover -- switched',
      )
    superseded = state === 'superseded'
    const is_new = reported !== undefined && number > reported
    reported = number
    if (!recorded) {
      if (is_new) log.warn({ switch: number }, 'the database was switched. See: npm run recover -- status')
      return
    }
    const found = await findSwitch(sql, number)
    if (found === undefined) return
    if (found.kind === 'planned') log.warn(found, 'the database has moved to another server, as planned')
    else log.error(found, `${switchText(found)}. See: npm run recover -- status`)
  }
}

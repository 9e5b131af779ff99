// Watches the server of the database: a process works only while the server is the one in use.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Config } from '#core/config.ts'
import { isUnavailable, type Sql } from '#core/db.ts'
import { AppError } from '#core/errors.ts'
import type { Log } from '#core/log.ts'
import { metrics } from '#core/metrics.ts'
import { renewConnections } from '#core/pool.ts'
import { throttle } from '#core/seldom.ts'
import { openWitnessPlace } from '#core/witness-place.ts'
import { decodeFacts, encodeFacts, isNewer, withLatestClock } from './facts.ts'
import { findSwitch } from './find.ts'
import { checkServer, findInstallationId, HOLDS, type CheckedServer, type ServerFacts } from './server.ts'

/** Remembers texts outside of the database. */
export type Witness = {
  /**
   * Stores `text` under `name` unless a text that is greater, by its characters, is stored. Returns the greatest; null
   * if there is none, or if the witness cannot be reached. Never rejects.
   */
  keepNewest(name: string, text: string | null): Promise<string | null>
}

export type DatabaseWatch = {
  /** Whether the server was in use when it was last checked, and the database was not sealed. */
  isCurrent(): boolean
  /** Throws `database_unavailable` unless the server was checked and is the one in use. */
  assertCurrent(): void
  /** Whether jobs wait since a switch: meanwhile nothing may expire or be deleted because of its age. */
  isHeld(): boolean
  /**
   * What happened later may have been lost by a switch of the last day, in Unix seconds; null: there was none.
   */
  lostSince(): number | null
  /** Whether the database was ever switched. */
  hasSwitched(): boolean
  close(): Promise<void>
}

const INTERVAL_MS = 1_000
/** The interval until a check succeeds: jobs wait for it after a start of the server. */
const RETRY_INTERVAL_MS = 100
/** The maximum time that a check may go on after `close`. */
const CLOSE_TIMEOUT_MS = 500
/** The maximum time that a starting process waits for the first check. */
const START_TIMEOUT_MS = 5_000

/**
 * Checks the server at once and then every second, and keeps the newest facts in memory, in Redis and at WITNESS_URL.
 * Resolves after the first check, or after 5 s.
 */
export async function watchDatabase(
  { SYNCHRONOUS_STANDBY: is_synchronous, WITNESS_URL: place }: Config,
  { sql, log, queue }: { sql: Sql; log: Log; queue: Witness },
): Promise<DatabaseWatch> {
  const report = createReport(sql, log)
  const witnesses = place === undefined ? [queue] : [queue, openWitnessPlace(place, log)]
  const memory = createMemory(sql, witnesses)
  const warn = throttle(
    (suppressed, err: unknown) =>
      log.warn({ err, suppressed }, 'the server of the database could not be checked'),
    10_000,
  )
  let server: CheckedServer | undefined
  const abort = new AbortController()

  async function check(): Promise<void> {
    if (server === undefined) await memory.exchange(null)
    let checked: CheckedServer
    do {
      checked = await checkServer(sql, memory.newest(), is_synchronous)
    } while (checked.state === 'recording' && !abort.signal.aborted)
    // Connections that were opened before may lead to the server that was in use before.
    if (checked.state === 'superseded' || checked.switch > (server?.switch ?? checked.switch))
      renewConnections()
    server = checked
    for (const hold of HOLDS) metrics.jobsHeld.set({ hold }, server.hold === hold ? 1 : 0)
    await report(server)
    await memory.exchange(server.state === 'superseded' ? null : server)
  }

  async function repeat(): Promise<void> {
    while (!abort.signal.aborted) {
      const succeeded = await check().then(
        () => true,
        (error: unknown) => {
          if (!isUnavailable(error)) warn(error)
          return false
        },
      )
      if (succeeded) first.resolve()
      const interval_ms = succeeded ? INTERVAL_MS : RETRY_INTERVAL_MS
      await sleep(interval_ms, undefined, { signal: abort.signal }).catch(() => {})
    }
  }

  const first = Promise.withResolvers<void>()
  const running = repeat()
  await Promise.race([first.promise, sleep(START_TIMEOUT_MS, undefined, { ref: false })])

  return {
    isCurrent: () => server?.state === 'current',
    assertCurrent() {
      if (server?.state !== 'current') throw refusalOf(server?.state)
    },
    isHeld: () => server === undefined || server.hold !== null,
    lostSince: () => (server?.lost_since == null ? null : Date.parse(server.lost_since) / 1000),
    hasSwitched: () => server !== undefined && server.switch > 0,
    async close() {
      abort.abort()
      // A check may wait for a database that does not answer.
      await Promise.race([running, sleep(CLOSE_TIMEOUT_MS, undefined, { ref: false })])
    },
  }
}

const REFUSALS: Partial<Record<CheckedServer['state'], string>> = {
  superseded: 'The database has moved to another server.',
  sealed: 'The database is being moved to another server.',
}

function refusalOf(state: CheckedServer['state'] | undefined): AppError {
  const reason = (state && REFUSALS[state]) ?? 'The database has not been checked yet.'
  return new AppError('database_unavailable', { message: `${reason} Nothing was accepted: retry later.` })
}

/** The newest facts that this process or a witness knows. */
function createMemory(sql: Sql, witnesses: readonly Witness[]) {
  let name: string | undefined
  let newest: ServerFacts | null = null
  return {
    newest: () => newest,
    /** Tells the witnesses and asks them. */
    async exchange(facts: ServerFacts | null): Promise<void> {
      name ??= `sluice:server:${await findInstallationId(sql)}`
      const known = facts && withLatestClock(facts, newest)
      const text = known && encodeFacts(known)
      const kept = await Promise.all(witnesses.map((witness) => witness.keepNewest(name!, text)))
      for (const each of [known, ...kept.map(decodeFacts)])
        if (each !== null && isNewer(each, newest)) newest = withLatestClock(each, newest)
    },
  }
}

/** Reports each switch once for each process, and once that another server is in use. */
function createReport(sql: Sql, log: Log): (server: CheckedServer) => Promise<void> {
  let known: number | undefined
  let superseded = false
  return async (server) => {
    const { state, recorded, switch: number } = server
    if (state === 'superseded' && !superseded)
      log.error(
        { server },
        'another server of this database is in use: this process accepts and does nothing. If this server shall be used, run: npm run recover -- switched',
      )
    superseded = state === 'superseded'
    const found =
      recorded || (known !== undefined && number > known) ? await findSwitch(sql, number) : undefined
    known = number
    if (found === undefined) return
    if (!recorded) return log.warn(found, 'the database was switched')
    metrics.databaseSwitches.inc({ kind: found.kind })
    log.error(
      found,
      found.kind === 'restore'
        ? 'the database has gone back in time: jobs wait until an operator releases them. See: npm run recover -- status'
        : 'the database has moved to another server, and may lack what was committed last. See: npm run recover -- status',
    )
  }
}

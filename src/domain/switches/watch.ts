// Watches the server of the database: a process works only while the server is the one in use.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Config } from '#core/config.ts'
import { isUnavailable, type Sql } from '#core/db.ts'
import { AppError } from '#core/errors.ts'
import type { Log } from '#core/log.ts'
import { metrics } from '#core/metrics.ts'
import { throttle } from '#core/seldom.ts'
import { decodeFacts, encodeFacts, isNewer } from './facts.ts'
import {
  checkServer,
  findInstallationId,
  findSwitch,
  type CheckedServer,
  type ServerFacts,
} from './server.ts'

/** Remembers texts outside of the database. */
export type Witness = {
  /**
   * Stores `text` under `name` unless a text that is greater, by its characters, is stored. Returns the greatest; null
   * if there is none, or if the witness cannot be reached. Never rejects.
   */
  keepNewest(name: string, text: string | null): Promise<string | null>
}

export type DatabaseWatch = {
  /** Whether the server in use was checked last. */
  isCurrent(): boolean
  /** Throws `database_unavailable` unless the server was checked and is the one in use. */
  assertCurrent(): void
  close(): Promise<void>
}

const INTERVAL_MS = 1_000
/** The interval until a check succeeds: jobs wait for it after a start of the server. */
const RETRY_INTERVAL_MS = 100
/** The maximum time that a starting process waits for the first check. */
const START_TIMEOUT_MS = 5_000

/**
 * Checks the server at once and then every second, and keeps the newest facts in memory and with the witnesses.
 * Resolves after the first check, or after 5 s.
 */
export async function watchDatabase(
  { SYNCHRONOUS_STANDBY: is_synchronous }: Config,
  { sql, log, witnesses }: { sql: Sql; log: Log; witnesses: readonly Witness[] },
): Promise<DatabaseWatch> {
  const report = createReport(sql, log)
  const warn = throttle(
    (suppressed, err: unknown) =>
      log.warn({ err, suppressed }, 'the server of the database could not be checked'),
    10_000,
  )
  let name: string | undefined
  let newest: ServerFacts | null = null
  let state: CheckedServer['state'] | 'unchecked' = 'unchecked'
  let closed = false
  const abort = new AbortController()

  async function exchange(facts: ServerFacts | null): Promise<void> {
    name ??= `sluice:server:${await findInstallationId(sql)}`
    const text = facts && encodeFacts(facts)
    const kept = await Promise.all(witnesses.map((witness) => witness.keepNewest(name!, text)))
    for (const each of [facts, ...kept.map(decodeFacts)])
      if (each !== null && isNewer(each, newest)) newest = each
  }

  async function check(): Promise<void> {
    if (state === 'unchecked') await exchange(null)
    let server: CheckedServer
    do {
      server = await checkServer(sql, newest, is_synchronous)
    } while (server.state === 'recording' && !closed)
    state = server.state
    await report(server)
    if (state === 'current') await exchange(server)
    // Another server may be in use by now.
    else await exchange(null)
  }

  async function repeat(): Promise<void> {
    while (!closed) {
      const checked = await check().then(
        () => state === 'current',
        (error: unknown) => {
          if (!isUnavailable(error)) warn(error)
          return false
        },
      )
      if (checked) first.resolve()
      await sleep(checked ? INTERVAL_MS : RETRY_INTERVAL_MS, undefined, { signal: abort.signal }).catch(
        () => {},
      )
    }
  }

  const first = Promise.withResolvers<void>()
  const running = repeat()
  await Promise.race([first.promise, sleep(START_TIMEOUT_MS, undefined, { ref: false })])

  return {
    isCurrent: () => state === 'current',
    assertCurrent() {
      if (state === 'current') return
      throw new AppError('database_unavailable', {
        message:
          state === 'superseded'
            ? 'The database has moved to another server. Nothing was accepted: retry later.'
            : 'The database is not checked yet. Nothing was accepted: retry later.',
      })
    },
    async close() {
      closed = true
      abort.abort()
      await running
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

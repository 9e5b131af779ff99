// Repeats steps that other sessions block, and reports these sessions. A statement that waits for the lock of a table
// blocks all later statements on the table: so each wait is short, and other sessions work during the pauses.
import { setTimeout as sleep } from 'node:timers/promises'
import { ConfigError } from '../config.ts'
import { databaseCode, isRolledBack } from '../db.ts'

/** How often a step is tried. Each try waits `first_wait_ms` longer than the previous one, up to `max_wait_ms`. */
export type Tries = { max_tries: number; first_wait_ms: number; max_wait_ms: number }

export const TRIES: Tries = { max_tries: 30, first_wait_ms: 250, max_wait_ms: 2_000 }

/** The wait of a command that blocks no other session while it waits. */
const LONG_LOCK_TIMEOUT_MS = 600_000
const POLL_SESSIONS_EVERY_MS = 200
/** More often than that for a step with short waits: its shortest one, `WAIT_WITH_LOCKS_MS`, must be observed. */
const POLL_SESSIONS_OF_SHORT_WAITS_EVERY_MS = 40
const REPORT_EVERY_MS = 10_000

/** A session that blocks another one. Times in seconds; null if the user may not see it. */
export type BlockingSession = {
  pid: number
  user: string | null
  application: string | null
  state: string | null
  transaction_s: number | null
  /** The tables that the blocked session waits for. */
  tables: string | null
}

const SESSION_COLUMNS = `
  a.pid, a.usename as user, nullif(a.application_name, '') as application, a.state,
  extract(epoch from clock_timestamp() - a.xact_start)::float8 as transaction_s`

/** The statement that finds the sessions that block the session with this pid, the oldest transaction first. */
export const blockingSessionsOf = (pid: number) => `
  select ${SESSION_COLUMNS},
    (select string_agg(distinct l.relation::regclass::text, ', ') from pg_locks l
      where l.pid = ${pid} and not l.granted and l.relation is not null) as tables
  from unnest(pg_blocking_pids(${pid})) blocking join pg_stat_activity a on a.pid = blocking
  order by a.xact_start`

/** The statement that finds the sessions that block a lock on the table `$1` in the mode `$2`, the oldest first. */
export const SESSIONS_BLOCKING_LOCK = `
  select ${SESSION_COLUMNS}, $1::text as tables
  from pg_locks l join pg_stat_activity a on a.pid = l.pid
  where l.granted and l.relation = to_regclass($1) and l.pid <> pg_backend_pid() and a.datname = current_database()
    and (l.mode <> 'AccessShareLock' or $2::text = 'access exclusive')
  group by 1, 2, 3, 4, a.xact_start order by a.xact_start limit 3`

/** Sessions block a lock that a step does not wait for. */
export class TableLockedError extends Error {
  readonly sessions: BlockingSession[]
  constructor(sessions: BlockingSession[]) {
    super('a table is locked')
    this.sessions = sessions
  }
}

/** How a step waits for its locks. */
export type LockWait = {
  /** Finds the sessions that block the session of the step, with `blockingSessionsOf`. */
  findBlockingSessions: () => Promise<BlockingSession[]>
  report: (text: string) => void
  tries: Tries
}

/**
 * Runs `attempt` until no lock of another session prevents it. `attempt` gets its lock timeout, and must be without
 * effect if it fails. Errors: ConfigError after the last try; those of `attempt`.
 */
export async function retryWhileLocked<T>(
  name: string,
  { findBlockingSessions, report, tries }: LockWait,
  attempt: (lock_timeout_ms: number) => Promise<T>,
): Promise<T> {
  const { max_tries, first_wait_ms, max_wait_ms } = tries
  for (let nth = 1; ; nth++) {
    const wait_ms = Math.min(first_wait_ms * nth, max_wait_ms)
    const polling = pollSessions(findBlockingSessions, POLL_SESSIONS_OF_SHORT_WAITS_EVERY_MS)
    try {
      return await attempt(wait_ms)
    } catch (error) {
      if (!isLockConflict(error)) throw error
      const sessions = describe(error instanceof TableLockedError ? error.sessions : polling.last())
      if (nth === max_tries)
        throw new ConfigError(
          `${name}: not applied in ${nth} tries, because another session locks what must be changed: ${sessions}. Find the session in pg_stat_activity, end it (select pg_terminate_backend(pid)), and run the migration again.`,
        )
      report(`${name}: try ${nth} of ${max_tries}, locked by ${sessions}. Work goes on; trying again.`)
    } finally {
      polling.stop()
    }
    // At least as long as the wait: requests that waited behind this session finish meanwhile.
    await sleep(first_wait_ms + wait_ms * (1 + Math.random()))
  }
}

/**
 * Runs `attempt`, which blocks no other session while it waits, with a long lock timeout. Reports the sessions that
 * block it. Errors: ConfigError if a lock is not free within ten minutes; those of `attempt`.
 */
export async function waitWithLongTimeout<T>(
  name: string,
  { findBlockingSessions, report }: LockWait,
  attempt: (lock_timeout_ms: number) => Promise<T>,
): Promise<T> {
  const polling = pollSessions(findBlockingSessions, POLL_SESSIONS_EVERY_MS, (sessions) =>
    report(`${name}: waits for ${describe(sessions)}. Reads and writes go on.`),
  )
  try {
    return await attempt(LONG_LOCK_TIMEOUT_MS)
  } catch (error) {
    if (!isLockConflict(error)) throw error
    throw new ConfigError(
      `${name}: not applied in ten minutes, because it waits for ${describe(polling.last())}. End that session, and run the migration again.`,
    )
  } finally {
    polling.stop()
  }
}

/** Whether another session's lock, or its simultaneous change of the same catalog row, prevented the statement. */
function isLockConflict(error: unknown): boolean {
  return (
    error instanceof TableLockedError ||
    databaseCode(error) === '55P03' ||
    isRolledBack(error) ||
    (error instanceof Error && error.message.startsWith('tuple concurrently'))
  )
}

/** Polls the blocking sessions until it is stopped. `onBlocked` is called at first, and then every ten seconds. */
function pollSessions(
  findBlockingSessions: () => Promise<BlockingSession[]>,
  every_ms: number,
  onBlocked: (sessions: BlockingSession[]) => void = () => {},
) {
  let last: BlockingSession[] = []
  let reported_at = -Infinity
  let busy = false
  const poll = async () => {
    const sessions = await findBlockingSessions()
    if (sessions.length === 0) return
    last = sessions
    if (performance.now() - reported_at < REPORT_EVERY_MS) return
    reported_at = performance.now()
    onBlocked(sessions)
  }
  const timer = setInterval(() => {
    if (busy) return
    busy = true
    void poll()
      .catch(() => {})
      .finally(() => (busy = false))
  }, every_ms)
  return { last: () => last, stop: () => clearInterval(timer) }
}

function describe(sessions: BlockingSession[]): string {
  if (sessions.length === 0) return 'sessions that could not be named'
  const texts = sessions.map(({ pid, user, application, state, transaction_s }) => {
    const facts = [user, application, state, transaction_s && `for ${Math.round(transaction_s)} s`]
    return `pid ${pid} (${facts.filter((fact) => fact !== null && fact !== 0).join(', ')})`
  })
  const { tables } = sessions[0]!
  return `${texts.join(' and ')}${tables === null ? '' : `, on ${tables}`}`
}

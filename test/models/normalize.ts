// What every step of the model of switches ends with: clients learn of it, and what makes no difference is forgotten.
import { holds, type Scenario } from './rules.ts'
import { MOMENTS, type AtProvider, type Database, type Row, type State } from './state.ts'

/** What is written to a server before its switch is recorded does not change T. */
export function keepNewest(scenario: Scenario, { db }: State, next: State): State {
  const { newest } = next.db
  const is_unrecorded = next.db.switch !== next.rewinds && next.db.switch === db.switch
  if (!is_unrecorded || newest >= db.newest || !holds(scenario, 'newest_before_start')) return next
  return { ...next, db: { ...next.db, newest: db.newest } }
}

/** Clients know each status once it is written. What they know changes back only when a switch is recorded. */
export function tell(state: State, next: State): State {
  const { db } = next
  const is_switch = db.switch !== state.db.switch && next.rewinds === state.rewinds
  if (db.switch !== next.rewinds) return next
  const told = changedOnly(next.told, (each, i) => {
    const status = db.rows[i]?.status ?? null
    return is_switch || each === null || each === 'pending' ? (status ?? (is_switch ? null : each)) : each
  })
  return told === next.told ? next : { ...next, told }
}

/**
 * The state without what makes no difference any more: leases and attempts that nobody waits for, times that are never
 * compared again, and answers under keys that are not used any more.
 */
export function normalize(scenario: Scenario, state: State): State {
  const { rewinds, backup, old, workers, provider } = state
  const is_last = rewinds === scenario.rewinds && state.db.switch === rewinds
  const db = is_last ? withoutTimes(state.db) : state.db
  const databases = [db, backup, old].filter((each) => each !== null)
  const rowsOf = (request: number) => databases.map(({ rows }) => rows[request])
  const isLeased = (request: number, worker: number) => rowsOf(request).some((row) => row?.lease === worker)
  const kept = workers.map((worker, nth) =>
    worker !== null && isLeased(worker.request, nth) ? worker : null,
  )
  return {
    ...state,
    db,
    workers: kept.every((worker, nth) => worker === workers[nth]) ? workers : [kept[0]!, kept[1]!],
    provider: is_last ? changedOnly(provider, (each, i) => usedAnswers(each, db, rowsOf(i))) : provider,
  }
}

/** The list with each item replaced; the same list if no item changes. */
function changedOnly<T>(list: readonly T[], change: (item: T, index: number) => T): readonly T[] {
  const changed = list.map(change)
  return changed.every((item, i) => item === list[i]) ? list : changed
}

/** The database without times that only another switch would compare. */
function withoutTimes(db: Database): Database {
  const is_switched = db.lists_since === null && db.switched !== null
  const is_dated = (row: Row | null) => row !== null && row.created !== MOMENTS
  if (db.newest === MOMENTS && !is_switched && !db.rows.some(is_dated)) return db
  return {
    ...db,
    newest: MOMENTS,
    switched: is_switched ? null : db.switched,
    rows: db.rows.map((row) => (is_dated(row) ? { ...row!, created: MOMENTS } : row)),
  }
}

function usedAnswers(at_provider: AtProvider, db: Database, rows: (Row | null | undefined)[]): AtProvider {
  const since = db.lists_since === null ? at_provider.since && MOMENTS : at_provider.since
  const isUsed = (generation: number) =>
    at_provider.under_way[generation - 1]! > 0 ||
    rows.some((row) => row == null || (row.job !== 'finished' && row.generation <= generation))
  const { answers } = at_provider
  if (since === at_provider.since && !answers.some((answer, i) => answer !== 'none' && !isUsed(i + 1)))
    return at_provider
  return { ...at_provider, since, answers: answers.map((answer, i) => (isUsed(i + 1) ? answer : 'none')) }
}

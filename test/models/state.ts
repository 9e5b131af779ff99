// The state of the model of switches: the database and its backup, two workers, the provider, and what clients know.

/**
 * How long ago something was. `MOMENTS`: so recently that a call may still be under way. `MINUTES`: long enough for an
 * absence to prove something, and for a provider to know the key. `DAY`: the provider has forgotten the key.
 */
export const MOMENTS = 0
export const MINUTES = 1
export const DAY = 2
export type Age = typeof MOMENTS | typeof MINUTES | typeof DAY

/** `top_up` stands for every creation of money that is not held until the provider's lists have been read. */
export type Kind = 'payout' | 'top_up' | 'email'

/** A resource with the job that creates it at the provider. A finished one has only its status. */
export type Row = {
  status: 'pending' | 'succeeded' | 'failed' | 'canceled'
  job: 'ready' | 'running' | 'parked' | 'finished'
  /** `unknown_since`: until it gets a new key, the call may only be looked up. */
  unknown: boolean
  generation: number
  created: Age
  first_sent: Age | null
  last_sent: Age | null
  in_doubt: boolean
  /** `call_started_at`: a cancellation is only recorded. */
  call_started: boolean
  cancel_requested: boolean
  due: boolean
  /** Waits for `release --messages`. */
  held: boolean
  /** The worker that holds the lease, if its token is still in that worker's memory. */
  lease: number | null
}

export type Database = {
  /** The number of the last switch that is on record here. */
  switch: number
  /** When the newest change was written. */
  newest: Age
  hold: 'failover' | 'restore' | null
  /** T of the switch whose lists are to be read; null: they have been read. */
  lists_since: Age | null
  /** How long ago the last switch was recorded; null once it no longer matters. */
  switched: Age | null
  rows: readonly (Row | null)[]
}

/** An attempt at a job, in the memory of its worker; null: the worker is idle. */
export type Worker = {
  request: number
  generation: number
  /** Whether an earlier attempt may have reached the provider. */
  in_doubt: boolean
  /** Whether an absence in the provider's list would prove that the call had no effect. */
  proves: boolean
  /** `knows of no effect`: the list proved it when it was read. This knowledge may be out of date. */
  step: 'calls' | 'looks up' | 'knows of no effect'
} | null

/** What the provider knows of a request. Index: the generation of the key, less one. */
export type AtProvider = {
  effects: number
  /** The age of the first effect. */
  since: Age | null
  answers: readonly ('none' | 'created' | 'error' | 'refused')[]
  /** The number of calls under way with each key: 1 stands for any number, except of emails. */
  under_way: readonly number[]
}

export type State = {
  /** The database that is in use. */
  db: Database
  /** A backup of the database; null before it is made, and when no rewind is left. */
  backup: Database | null
  /** The old primary, which runs on after a promotion. */
  old: Database | null
  /** The number of rewinds so far. */
  rewinds: number
  /** The mark of two primaries: the switch whose server may claim and accept. */
  mark: number
  workers: readonly [Worker, Worker]
  provider: readonly AtProvider[]
  /** The statuses that clients were told last. */
  told: readonly (Row['status'] | null)[]
  /** Whether a client has canceled an email, as far as the client knows. */
  withdrawn: readonly boolean[]
  /** Whether an operator, or a failover, has released messages to be sent. */
  messages_released: boolean
}

export const MAX_GENERATION = 5

export function initialState(kinds: readonly Kind[]): State {
  const none = { effects: 0, since: null, answers: Array(MAX_GENERATION).fill('none') }
  return {
    db: {
      switch: 0,
      newest: MOMENTS,
      hold: null,
      lists_since: null,
      switched: null,
      rows: kinds.map(() => null),
    },
    backup: null,
    old: null,
    rewinds: 0,
    mark: 0,
    workers: [null, null],
    provider: kinds.map(() => ({ ...none, under_way: Array(MAX_GENERATION).fill(0) })),
    told: kinds.map(() => null),
    withdrawn: kinds.map(() => false),
    messages_released: false,
  }
}

/** A copy of a list with another item at `index`. */
export function replace<T>(list: readonly T[], index: number, item: T): T[] {
  const copy = [...list]
  copy[index] = item
  return copy
}

/** A row whose job has ended. All such rows of one status are equal. */
export function finished(status: Row['status']): Row {
  return FINISHED[status]
}

const FINISHED = Object.fromEntries(
  (['pending', 'succeeded', 'failed', 'canceled'] as const).map((status): [Row['status'], Row] => [
    status,
    {
      status,
      job: 'finished',
      unknown: false,
      generation: 1,
      created: MOMENTS,
      first_sent: null,
      last_sent: null,
      in_doubt: false,
      call_started: false,
      cancel_requested: false,
      due: true,
      held: false,
      lease: null,
    },
  ]),
) as Record<Row['status'], Row>

/** The database with another row. Each change makes it the newest one. */
export function withRow(db: Database, request: number, row: Row): Database {
  return { ...db, newest: MOMENTS, rows: replace(db.rows, request, row) }
}

/** The state some time later: whatever was younger than `age` has this age. The age of an email decides nothing. */
export function later(kinds: readonly Kind[], state: State, age: Age): State {
  const older = <T extends Age | null>(each: T): T => (each === null ? each : (Math.max(each, age) as T))
  const laterRow = (row: Row | null, request: number): Row | null =>
    row === null || row.job === 'finished' || kinds[request] === 'email'
      ? row
      : {
          ...row,
          created: older(row.created),
          first_sent: older(row.first_sent),
          last_sent: older(row.last_sent),
        }
  const laterDatabase = (db: Database | null): Database | null =>
    db && {
      ...db,
      newest: older(db.newest),
      lists_since: older(db.lists_since),
      switched: older(db.switched),
      rows: db.rows.map(laterRow),
    }
  return {
    ...state,
    db: laterDatabase(state.db)!,
    backup: laterDatabase(state.backup),
    old: laterDatabase(state.old),
    provider: state.provider.map((each, request) => ({
      ...each,
      since: kinds[request] === 'email' ? each.since : older(each.since),
      // By then every call has arrived or is lost.
      under_way: each.under_way.map(() => 0),
      answers: age === DAY ? each.answers.map(() => 'none' as const) : each.answers,
    })),
  }
}

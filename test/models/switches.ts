// The model of switches of the database: clients, operators, time, rewinds, and what happens after them.
import type { Model, Step } from './explore.ts'
import { hasMark, isNoticed, providerSteps, servers, workerSteps } from './jobs.ts'
import { operatorSteps } from './operators.ts'
import { keepNewest, normalize, tell } from './normalize.ts'
import { holds, isCovered, type Scenario } from './rules.ts'
import {
  DAY,
  finished,
  initialState,
  later,
  MINUTES,
  MOMENTS,
  replace,
  withRow,
  type Age,
  type Database,
  type Row,
  type State,
} from './state.ts'

export function modelOf(scenario: Scenario): Model<State> {
  return {
    initial: initialState(scenario.kinds),
    steps: (state) =>
      [clientSteps, workerSteps, providerSteps, rewindSteps, switchSteps, operatorSteps, timeSteps].flatMap(
        (steps) =>
          steps(scenario, state).map(({ next, ...step }) => ({
            ...step,
            next: normalize(scenario, tell(state, keepNewest(scenario, state, next))),
          })),
      ),
    problem: (state) => problemOf(scenario, state),
    isSettled: ({ db, rewinds, workers, provider }) =>
      db.switch === rewinds &&
      db.hold === null &&
      db.lists_since === null &&
      db.rows.every((row) => row === null || row.job === 'finished') &&
      workers.every((worker) => worker === null) &&
      provider.every(({ under_way }) => under_way.every((calls) => calls === 0)),
  }
}

function problemOf(
  scenario: Scenario,
  { db, rewinds, provider, told, messages_released }: State,
): string | undefined {
  for (const [i, { effects }] of provider.entries()) {
    const kind = scenario.kinds[i]!
    const row = db.rows[i]
    const name = `${kind} ${i + 1}`
    const may_repeat = kind === 'email' && messages_released
    if (effects > 1 && !may_repeat) return `${name} happened twice`
    if (effects > 0 && (row?.status === 'canceled' || row?.status === 'failed') && !may_repeat)
      return `${name} is ${row.status} here and happened at the provider`
    if (db.switch !== rewinds) continue
    const before = told[i]
    if (before != null && before !== (row?.status ?? null))
      return `a client was told that ${name} is ${before}, and now it is ${row?.status ?? 'lost'}`
  }
  return undefined
}

function clientSteps(scenario: Scenario, state: State): Step<State>[] {
  return servers(state).flatMap(([server, db]) => {
    if (!hasMark(scenario, state, db)) return []
    if (!isNoticed(state, server) && holds(scenario, 'accepts_notice')) return []
    const on = server === 'old' ? ' on the old primary' : ''
    return scenario.kinds.flatMap((kind, request) => {
      const row = db.rows[request]
      const name = `${kind} ${request + 1}`
      if (row == null && scenario.repeats === false && state.rewinds > 0) return []
      if (row == null) return creationSteps(scenario, state, { server, db, request, name: name + on })
      if (kind === 'top_up' || row.status !== 'pending' || row.cancel_requested) return []
      if (kind === 'email' && row.call_started) return []
      const may_be_sent =
        row.call_started || (kind === 'payout' && db.lists_since !== null && holds(scenario, 'cancel_waits'))
      const [label, canceled] = may_be_sent
        ? ['asks to cancel', { ...row, cancel_requested: true }]
        : ['cancels', finished('canceled')]
      const withdrawn = kind === 'email' ? replace(state.withdrawn, request, true) : state.withdrawn
      const next = { ...state, withdrawn, [server]: withRow(db, request, canceled) }
      return [{ label: `a client ${label} ${name}${on}`, next }]
    })
  })
}

/** A client requests something, or repeats its request with its key. */
function creationSteps(
  scenario: Scenario,
  state: State,
  { server, db, request, name }: { server: 'db' | 'old'; db: Database; request: number; name: string },
): Step<State>[] {
  const kind = scenario.kinds[request]!
  const at_provider = state.provider[request]!
  const row: Row = {
    ...finished('pending'),
    job: 'ready',
    due: kind !== 'email' || scenario.scheduled !== true,
  }
  const is_repeated =
    state.told[request] !== null ||
    at_provider.effects > 0 ||
    at_provider.under_way.some((calls) => calls > 0)
  const after_switch = db.switch > 0
  if (kind === 'email' && after_switch && holds(scenario, 'lost_messages_wait'))
    Object.assign(row, { in_doubt: true, call_started: true })
  const accepted = withRow(db, request, row)
  const label = `a client requests ${name}`
  if (kind === 'payout' && !isCovered(scenario, accepted.rows)) {
    if (db.lists_since !== null && holds(scenario, 'refusals_wait')) return []
    const problem = is_repeated && at_provider.effects > 0 ? `${name} was refused, and happened` : undefined
    return problem === undefined ? [] : [{ label, next: state, problem }]
  }
  const next = { ...state, [server]: accepted, withdrawn: replace(state.withdrawn, request, false) }
  if (holds(scenario, 'derived_ids')) return [{ label, next }]
  // Another id: the provider knows neither the key nor, by the new id, the object.
  const forgotten = { answers: at_provider.answers.map(() => 'none' as const) }
  return [
    {
      label,
      next: { ...next, provider: replace(state.provider, request, { ...at_provider, ...forgotten }) },
    },
  ]
}

/** A backup, and a return to it. The provider and the workers stay as they are. */
function rewindSteps(scenario: Scenario, state: State): Step<State>[] {
  const { db, backup, rewinds } = state
  if (rewinds === scenario.rewinds) return []
  const steps: Step<State>[] = []
  // Before the first rewind an earlier backup is the same as none.
  if (backup === null || rewinds > 0)
    steps.push({ label: 'a backup is made', next: { ...state, backup: db } })
  if (backup !== null)
    steps.push({
      label: scenario.promotion ? 'a standby that lags is promoted' : 'the backup is restored',
      next: {
        ...state,
        db: backup,
        backup: rewinds + 1 === scenario.rewinds ? null : backup,
        old: scenario.promotion ? db : null,
        rewinds: rewinds + 1,
      },
    })
  return steps
}

/** The switch is noticed; later the lists of the provider are read. */
function switchSteps(scenario: Scenario, state: State): Step<State>[] {
  const { db, rewinds } = state
  const steps: Step<State>[] = []
  if (db.switch !== rewinds) {
    if (holds(scenario, 'witness')) steps.push(recordSwitch(scenario, state))
    else
      steps.push({
        label: 'nothing shows the switch',
        next: { ...state, db: { ...db, switch: rewinds }, mark: rewinds },
      })
    return steps
  }
  if (db.lists_since !== null && (db.switched !== MOMENTS || !holds(scenario, 'lists_wait')))
    steps.push(readLists(scenario, state))
  return steps
}

function recordSwitch(scenario: Scenario, state: State): Step<State> {
  const { db, rewinds } = state
  const since = db.newest
  const hold = since === MOMENTS ? 'failover' : 'restore'
  const unread = holds(scenario, 'oldest_unread') ? (db.lists_since ?? MOMENTS) : MOMENTS
  const recorded: Database = {
    switch: rewinds,
    newest: MOMENTS,
    hold,
    lists_since: Math.max(since, unread) as Age,
    switched: MOMENTS,
    rows: db.rows.map((row, i) =>
      row === null || row.job === 'finished' ? row : inDoubt(scenario, i, row, since),
    ),
  }
  return {
    label: `the switch is recorded as a ${hold}`,
    next: { ...state, db: recorded, mark: rewinds },
  }
}

/** An open job after a switch. */
function inDoubt(scenario: Scenario, request: number, row: Row, since: Age): Row {
  const kind = scenario.kinds[request]!
  const released: Row =
    row.job === 'running' && holds(scenario, 'leases_end')
      ? { ...row, job: 'ready', in_doubt: true, lease: null }
      : row
  if (kind === 'email' && !row.due)
    return { ...released, held: !row.in_doubt && holds(scenario, 'messages_wait') }
  if (!holds(scenario, 'counts_as_sent')) return released
  if (row.job === 'parked' && !holds(scenario, 'parked_count_as_sent')) return released
  const looked_up =
    kind !== 'email' &&
    ((since !== MOMENTS && holds(scenario, 'looked_up_first')) ||
      (kind === 'payout' && holds(scenario, 'payouts_looked_up')))
  return {
    ...released,
    unknown: released.unknown || looked_up,
    in_doubt: true,
    first_sent: holds(scenario, 'from_creation') ? row.created : MOMENTS,
    last_sent: holds(scenario, 'sent_until_switch') ? MOMENTS : (row.last_sent ?? row.created),
    call_started: row.call_started || holds(scenario, 'cancel_counts_as_sent'),
  }
}

/** What only the provider has becomes a row. Then payouts that are certainly unsent are judged again. */
function readLists(scenario: Scenario, state: State): Step<State> {
  const { db, provider } = state
  const lists_since = db.lists_since!
  const recovered = db.rows.map((row, i) => {
    const { effects, since } = provider[i]!
    const is_listed = scenario.kinds[i] !== 'email' && effects > 0 && since! <= lists_since
    const is_recovered =
      row === null
        ? holds(scenario, 'rows_recovered')
        : row.status === 'pending' && holds(scenario, 'open_rows_settled')
    return is_listed && is_recovered ? finished('succeeded') : row
  })
  const rows = [...recovered]
  for (const [i, row] of rows.entries()) {
    const is_unsent = row !== null && row.job !== 'finished' && row.first_sent === null && !row.in_doubt
    if (scenario.kinds[i] !== 'payout' || !is_unsent || !holds(scenario, 'judged_again')) continue
    if (!isCovered(scenario, rows)) rows[i] = finished('failed')
  }
  const is_released = db.hold === 'failover'
  return {
    label: 'the lists of the provider are read',
    next: {
      ...state,
      db: {
        ...db,
        newest: MOMENTS,
        lists_since: null,
        hold: is_released ? null : db.hold,
        rows: is_released ? rows.map((row) => (row?.held ? { ...row, held: false } : row)) : rows,
      },
      messages_released: state.messages_released || is_released,
    },
  }
}

function timeSteps(scenario: Scenario, state: State): Step<State>[] {
  const { db, backup, old, rewinds } = state
  const steps: Step<State>[] = []
  // What may not get lost arrives before time passes: this bounds the number of generations.
  if (
    !state.provider.some(({ under_way }) =>
      under_way.some((calls, i) => calls > 0 && i >= scenario.faulty_generations),
    )
  )
    steps.push(
      { label: 'minutes pass', next: later(scenario.kinds, state, MINUTES) },
      { label: 'a day passes', next: later(scenario.kinds, state, DAY) },
    )
  // A process that has not noticed the switch yet.
  if (db.switch !== rewinds && db.newest !== MOMENTS)
    steps.push({
      label: 'a process writes its heartbeat',
      next: { ...state, db: { ...db, newest: MOMENTS } },
    })
  // The clock is the same for every database.
  const fallDue = (db: Database) => ({ ...db, rows: db.rows.map((row) => row && { ...row, due: true }) })
  if ([db, backup, old].some((each) => each?.rows.some((row) => row !== null && !row.due)))
    steps.push({
      label: 'what is scheduled falls due',
      next: { ...state, db: fallDue(db), backup: backup && fallDue(backup), old: old && fallDue(old) },
    })
  return steps
}

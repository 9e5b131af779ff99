// The steps of workers and of the provider: claim, call, lookup, settle.
import type { Step } from './explore.ts'
import { holds, isCovered, type Scenario } from './rules.ts'
import {
  DAY,
  finished,
  MAX_GENERATION,
  MOMENTS,
  replace,
  withRow,
  type AtProvider,
  type Database,
  type Row,
  type State,
  type Worker,
} from './state.ts'

/** A server: the one in use, or the old primary. */
export type Server = 'db' | 'old'

/** The running servers with their databases. */
export function servers(state: State): [Server, Database][] {
  const current: [Server, Database] = ['db', state.db]
  return state.old === null ? [current] : [current, ['old', state.old]]
}

/** Whether the server is the one on record. The old primary never learns of the switch. */
export function isNoticed(state: State, server: Server): boolean {
  return server === 'old' || state.db.switch === state.rewinds
}

export function hasMark(scenario: Scenario, state: State, db: Database): boolean {
  return !holds(scenario, 'mark') || db.switch === state.mark
}

export function workerSteps(scenario: Scenario, state: State): Step<State>[] {
  return [...claims(scenario, state), ...attemptSteps(scenario, state)]
}

/** Whether the holds of the last switch let a worker claim this job. */
function mayClaim(scenario: Scenario, db: Database, request: number, row: Row): boolean {
  const kind = scenario.kinds[request]!
  if (row.job === 'parked' || row.job === 'finished' || row.held || !row.due) return false
  if (db.hold === 'restore' && holds(scenario, 'restore_paused')) return false
  if (kind === 'email') return !row.unknown
  if (db.lists_since === null) return true
  if (kind === 'payout') return !holds(scenario, 'payouts_wait')
  if (db.lists_since === DAY) return !holds(scenario, 'creations_wait')
  return db.lists_since === MOMENTS || !holds(scenario, 'creations_wait_early')
}

function claims(scenario: Scenario, state: State): Step<State>[] {
  const worker = state.workers.indexOf(null)
  if (worker === -1) return []
  return servers(state).flatMap(([server, db]) => {
    if (!hasMark(scenario, state, db)) return []
    if (!isNoticed(state, server) && holds(scenario, 'claims_notice')) return []
    return db.rows.flatMap((row, request) =>
      row !== null && mayClaim(scenario, db, request, row)
        ? [claim(scenario, state, { worker, server, request, row })]
        : [],
    )
  })
}

/** Claims a job and sends its call, unless it may only be looked up. A running job is claimed once its lease lapsed. */
function claim(
  scenario: Scenario,
  state: State,
  { worker, server, request, row }: { worker: number; server: Server; request: number; row: Row },
): Step<State> {
  const db = state[server]!
  const kind = scenario.kinds[request]!
  const in_doubt = row.in_doubt || row.job === 'running'
  const name = `worker ${worker + 1} claims ${kind} ${request + 1}${server === 'old' ? ' on the old primary' : ''}`
  if (kind === 'email' && in_doubt) {
    const next = withRow(db, request, { ...row, job: 'ready', unknown: true, in_doubt: true, lease: null })
    return {
      label: `${name}: it may have been sent, an operator must decide`,
      next: { ...state, [server]: next },
    }
  }
  const lookup_only = row.unknown || row.first_sent === DAY
  const sends = !lookup_only && !row.cancel_requested
  const leased: Row = {
    ...row,
    job: 'running',
    lease: worker,
    in_doubt,
    first_sent: lookup_only ? row.first_sent : (row.first_sent ?? MOMENTS),
    last_sent: lookup_only ? row.last_sent : MOMENTS,
    call_started: row.call_started || sends,
  }
  const claimed: Worker = {
    request,
    generation: row.generation,
    in_doubt: in_doubt && sends,
    proves: !sends && lookup_only && row.last_sent !== MOMENTS,
    step: sends ? 'calls' : 'looks up',
  }
  const at_provider = state.provider[request]!
  const next: State = {
    ...state,
    [server]: withRow(db, request, leased),
    workers: replace(state.workers, worker, claimed) as [Worker, Worker],
    provider: sends
      ? replace(state.provider, request, withCall(at_provider, row.generation, kind))
      : state.provider,
  }
  const problem = sends ? problemOfCall(scenario, state, db, request) : undefined
  return {
    label: `${name} and ${sends ? `sends it with key ${row.generation}` : 'looks it up'}`,
    next,
    problem,
  }
}

function withCall(at_provider: AtProvider, generation: number, kind: string): AtProvider {
  if (at_provider.answers[generation - 1] !== 'none') return at_provider
  const under_way = at_provider.under_way[generation - 1]!
  // Calls with one key have one effect, so one of them stands for all. An email has no key.
  const calls = kind === 'email' ? Math.min(under_way + 1, 2) : 1
  return { ...at_provider, under_way: replace(at_provider.under_way, generation - 1, calls) }
}

function problemOfCall(scenario: Scenario, state: State, db: Database, request: number): string | undefined {
  if (db.hold === 'restore') return 'a call was made after a restore and before the release'
  if (state.withdrawn[request] && !state.messages_released)
    return 'an email that a client had canceled was sent before the release'
  if (scenario.kinds[request] !== 'payout' || state.provider[request]!.effects > 0) return undefined
  const others = db.rows.filter(
    (row, i) => i !== request && scenario.kinds[i] === 'payout' && row?.status === 'succeeded',
  )
  return others.length < (scenario.balance ?? 1)
    ? undefined
    : 'a payout was sent that its account does not cover'
}

/** The state in which the worker is idle. */
function withoutAttempt(state: State, worker: number): State {
  // Nobody knows the token of this lease any more.
  const forget = (db: Database | null) =>
    db?.rows.some((row) => row?.lease === worker)
      ? { ...db, rows: db.rows.map((row) => (row?.lease === worker ? { ...row, lease: null } : row)) }
      : db
  const workers = replace(state.workers, worker, null) as [Worker, Worker]
  return { ...state, workers, db: forget(state.db)!, backup: forget(state.backup), old: forget(state.old) }
}

/** Attempts settle what they know, on any server that answers. Without its lease an attempt changes nothing. */
function attemptSteps(scenario: Scenario, state: State): Step<State>[] {
  return state.workers.flatMap((attempt, nth) => {
    if (attempt === null) return []
    const name = `worker ${nth + 1}`
    const idle = withoutAttempt(state, nth)
    const steps: Step<State>[] = [{ label: `${name} dies`, next: idle }]
    if (attempt.step === 'looks up' && attempt.proves && state.provider[attempt.request]!.effects === 0) {
      const workers = replace(state.workers, nth, { ...attempt, step: 'knows of no effect' }) as [
        Worker,
        Worker,
      ]
      steps.push({ label: `${name} finds nothing in the list of the provider`, next: { ...state, workers } })
    }
    for (const [server, db] of servers(state)) {
      const row = db.rows[attempt.request]
      if (row?.lease !== nth) continue
      const on = server === 'old' ? ' on the old primary' : ''
      for (const [outcome, settled] of outcomes(scenario, state, db, attempt, row))
        steps.push({
          label: `${name} ${outcome}${on}`,
          next: { ...idle, [server]: withRow(idle[server]!, attempt.request, settled) },
        })
    }
    return steps
  })
}

/** The rows that an attempt may settle, each with the reason. */
function outcomes(
  scenario: Scenario,
  state: State,
  db: Database,
  { step, request, generation, in_doubt, proves }: NonNullable<Worker>,
  row: Row,
): [string, Row][] {
  const is_email = scenario.kinds[request] === 'email'
  const { effects, answers } = state.provider[request]!
  const found = effects > 0
  const answer = is_email && found ? 'created' : answers[generation - 1]!
  const open: Row = { ...row, job: 'ready', lease: null, in_doubt: true }
  const unknown: Row = { ...open, unknown: true }
  if (step === 'knows of no effect') return [absent(scenario, db, request, row)]
  if (step === 'looks up') {
    if (found) return [['finds it in the list: succeeded', finished('succeeded')]]
    return proves ? [] : [['finds nothing in the list, too early to prove anything: unknown', unknown]]
  }
  // After 25 attempts without an answer a call is only looked up.
  const unanswered: [string, Row][] = [['got no answer: unknown', unknown]]
  if (!is_email) unanswered.push(['got no answer: the same key again', open])
  if (answer === 'none') return unanswered
  if (answer === 'created') return [['is answered: succeeded', finished('succeeded')], ...unanswered]
  if (answer === 'refused' && !in_doubt)
    return [
      ['is refused for lack of funds: parked under a new key', { ...rotated(row), job: 'parked' }],
      ...unanswered,
    ]
  const looked_up: [string, Row] = found
    ? [`gets a stored ${answer} answer and finds it in the list: succeeded`, finished('succeeded')]
    : [`gets a stored ${answer} answer and finds nothing in the list: unknown`, unknown]
  return [looked_up, ...unanswered]
}

/** Settles a call that had no effect. */
function absent(scenario: Scenario, db: Database, request: number, row: Row): [string, Row] {
  if (row.cancel_requested) return ['settles: canceled', finished('canceled')]
  const is_judged = scenario.kinds[request] === 'payout' && holds(scenario, 'judged_again')
  if (is_judged && !isCovered(scenario, db.rows))
    return ['settles: failed, for it is not covered', finished('failed')]
  return ['settles: a new key', rotated(row)]
}

function rotated(row: Row): Row {
  if (row.generation === MAX_GENERATION) throw new Error('the model needs more generations')
  return {
    ...row,
    lease: null,
    job: 'ready',
    unknown: false,
    generation: row.generation + 1,
    first_sent: null,
    last_sent: null,
    in_doubt: false,
    call_started: false,
  }
}

/** What happens to calls that are under way. */
export function providerSteps(scenario: Scenario, state: State): Step<State>[] {
  return state.provider.flatMap((at_provider, request) =>
    at_provider.under_way.flatMap((calls, nth) => {
      if (calls === 0) return []
      const kind = scenario.kinds[request]!
      const name = `${kind} ${request + 1} with key ${nth + 1}`
      const arrived = { ...at_provider, under_way: replace(at_provider.under_way, nth, calls - 1) }
      const step = (label: string, next: AtProvider): Step<State> => ({
        label: `the call for ${name} ${label}`,
        next: { ...state, provider: replace(state.provider, request, next) },
      })
      const answer = (with_answer: AtProvider['answers'][number]) =>
        replace(at_provider.answers, nth, with_answer)
      const created = { effects: Math.min(at_provider.effects + 1, 2), since: at_provider.since ?? MOMENTS }
      const may_fail = nth < scenario.faulty_generations
      const lost = may_fail ? [step('gets lost', arrived)] : []
      if (kind === 'email') return [step('arrives', { ...arrived, ...created }), ...lost]
      const steps = [
        step('arrives and takes effect', { ...arrived, ...created, answers: answer('created') }),
        ...lost,
      ]
      if (may_fail)
        steps.push(step('arrives and fails with a stored error', { ...arrived, answers: answer('error') }))
      if (may_fail && kind === 'payout')
        steps.push(
          step('arrives and is refused for lack of funds', { ...arrived, answers: answer('refused') }),
        )
      return steps
    }),
  )
}

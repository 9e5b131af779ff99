// The verdict: after everything has settled, the clients' records, the database and the processor's record must agree.
import { createReadStream } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { z } from 'zod'
import { findRemainingProblems, type Problem } from '#test/invariants.ts'
import { hasOpenWork } from '#test/open-work.ts'
import { checkHistories, type Checked } from '../history/check.ts'
import { STARTED, SUPERSEDED } from '../log-lines.ts'
import { missingNotifications } from '../notifications.ts'
import { isFinal, isInterrupted, type Accepted, type ClientRecord, type Switch } from '../record.ts'
import { checkObservations, type Observations } from '../observations.ts'
import type { System } from '../system.ts'
import { statusDifferences } from './processor-status.ts'
import { eventsBackwards, endsOf, type Ends } from './ends.ts'
import { hasOpenEvents, judgeAllEvents, type EventCounts } from './events.ts'
import { lossesOf } from './lost.ts'
import { lookUpUnknownSms, messagesOf, type MessageCounts } from './messages.ts'
import { moneyProblems } from './money.ts'
import { overruledOptOuts } from './opt-outs.ts'

/** Jobs that are due later wait on purpose: their outcome is unknown, or they are parked. */
const DUE_WITHIN_S = 15
/**
 * Maximum number of jobs that stay unknown: a fault ages calls by a day while they are in progress, and the processor
 * then no longer knows their keys.
 */
const MAX_UNKNOWN = 5

/** The problem that is found if the system does not notice that the database has lost requests. */
const NEITHER_BACK_NOR_NAMED = 'a request that the database has lost is neither back nor named'

export type Verdict = {
  problems: Problem[]
  /** Keys of accepted requests whose work is finished. */
  finished: Set<string>
  /** Number of jobs with an unknown outcome, except jobs of messages. */
  unknown: number
  histories: Omit<Checked, 'problems'>
  ends: Ends
  messages: MessageCounts
  events: EventCounts
}

/**
 * Resolves with true when no work is due, all events were delivered and read, all unknown SMS were looked up, and all
 * notifications arrived or were read from the processor's event list. Resolves with false after `limit_ms`.
 */
export async function settle(system: System, limit_ms: number): Promise<boolean> {
  const { sql, provider } = system
  const deadline = performance.now() + limit_ms
  let looked_up = false
  for (;;) {
    const open = await hasOpenWork(sql, DUE_WITHIN_S, 0)
    const { waiting, sending } = await provider('stripe').control('GET', '/webhooks')
    const quiet = !open && waiting === 0 && sending === 0 && !(await hasOpenEvents(system))
    // This check compares all events, so it runs only when the others have passed.
    if (quiet && (await missingNotifications(system)).missed.length === 0) {
      if (looked_up) return true
      looked_up = true
      await lookUpUnknownSms(system)
      continue
    }
    if (performance.now() > deadline) return false
    await sleep(quiet ? 1000 : 200)
  }
}

/** Waits for work in progress, then returns everything that contradicts the invariants. */
export async function judge(system: System, record: ClientRecord): Promise<Verdict> {
  const { sql } = system
  const [
    books,
    overdue,
    late,
    doubled,
    notifications,
    requests,
    final_statuses,
    money,
    backwards,
    differences,
    messages,
    opt_outs,
    events,
  ] = await Promise.all([
    findRemainingProblems(system),
    overdueJobs(system),
    lateWrites(system, record.switches),
    duplicateWork(system),
    notificationsOnce(system, record.switches),
    acceptedRequests(system, record),
    endsOf(system, record),
    moneyProblems(system),
    eventsBackwards(system),
    statusDifferences(system),
    messagesOf(system, record.switches),
    overruledOptOuts(system),
    judgeAllEvents(system, record.switches),
  ])
  const uninterrupted = [...record.histories].filter(([key]) => !isInterrupted(record, key))
  const { problems: unexplained, ...histories } = checkHistories(new Map(uninterrupted))
  // The outcome of a message may stay unknown for ever: messages are counted separately.
  const [unknown] = await sql<{ count: number }[]>`
    select count(*) from jobs
    where state = 'unknown' and queue <> 'messages'
      -- What a switch has put in doubt is looked up for longer than the torture waits.
      and coalesce(sent_with, '') not like '%*'`
  return {
    problems: [
      ...record.problems,
      ...books,
      ...overdue,
      ...late,
      ...doubled,
      ...notifications,
      ...requests.problems,
      ...unexplained,
      ...final_statuses.problems,
      ...money,
      ...backwards,
      ...differences,
      ...messages.problems,
      ...opt_outs,
      ...events.problems,
      ...checkObservations(uninterruptedObservations(record)),
      ...(unknown!.count > MAX_UNKNOWN
        ? [{ problem: 'too many outcomes are unknown', jobs: unknown!.count }]
        : []),
    ],
    finished: requests.finished,
    unknown: unknown!.count,
    histories,
    ends: final_statuses.ends,
    messages: messages.counts,
    events: events.counts,
  }
}

/** Due jobs must be claimed, even if their wake-ups were lost. */
async function overdueJobs({ sql }: System): Promise<Problem[]> {
  return await sql<Problem[]>`
    select 'a due job was not claimed' as problem, id, name, state, attempt, resource_id, last_error from jobs
    where finished_at is null and run_at < now() - interval '5 seconds' and (state <> 'running' or lease_until < now() - interval '5 seconds')`
}

/** A worker that lost its lease must not settle the attempt (its log would show that), and no lease may end early. */
async function lateWrites({ sql, folder, workers }: System, switches: Switch[]): Promise<Problem[]> {
  const lost = await sql<{ job_id: string; attempt: number; lease_s: number | null }[]>`
    select a.job_id, a.attempt,
      -- A switch of the database ends the leases of the jobs whose calls it puts in doubt.
      case when not (a.in_doubt and exists (select from database_switches))
        then extract(epoch from b.started_at - a.started_at)::float8 end as lease_s
    from job_attempts a left join all_job_attempts b on b.tenant_id = a.tenant_id and b.job_id = a.job_id and b.attempt = a.attempt + 1
    where a.outcome is null`
  const early = lost
    .filter(({ lease_s }) => lease_s !== null && lease_s < 3.9)
    .map((each) => ({ problem: 'a lease ended early', ...each }))
  const stored_keys = new Set(lost.map(({ job_id, attempt }) => `${job_id} ${attempt}`))
  const late: Problem[] = []
  for (const { name } of workers) {
    // What a worker still writes to a database that is no longer in use changes nothing.
    let is_superseded = false
    for await (const line of readLines(join(folder, 'logs', `${name}.log`))) {
      if (line.includes(SUPERSEDED) || line.includes(STARTED)) is_superseded = line.includes(SUPERSEDED)
      if (is_superseded || !line.endsWith('"an attempt ended"}')) continue
      const { job_id, attempt, outcome, time } = z
        .object({ job_id: z.string(), attempt: z.number(), outcome: z.string(), time: z.string() })
        .parse(JSON.parse(line))
      // What the database has lost is done again in attempts with the same numbers.
      const at = Date.parse(time) - performance.timeOrigin
      if (switches.some(({ since, until }) => at >= since && at <= until)) continue
      if (outcome !== 'fenced' && stored_keys.has(`${job_id} ${attempt}`))
        late.push({ problem: 'a late write changed something', job_id, attempt, outcome })
    }
  }
  return [...early, ...late]
}

/**
 * No payment is captured by two jobs, and concurrent refunds do not exceed the captured amount. Refunds of every status
 * count, because no refund fails here.
 */
async function duplicateWork({ sql }: System): Promise<Problem[]> {
  const refunds = await sql<Problem[]>`
    select 'refunds were accepted for more than was captured' as problem, p.id, p.amount_captured_minor, sum(r.amount_minor) as accepted
    from refunds r join payments p on p.tenant_id = r.tenant_id and p.id = r.payment_id
    group by p.tenant_id, p.id having sum(r.amount_minor) > p.amount_captured_minor`
  const captures = await sql<Problem[]>`
    select 'a payment was captured by two requests' as problem, resource_id as id, count(*) as times from jobs
    where name in ('payment.capture', 'payment.collect') and state = 'succeeded' group by tenant_id, resource_id having count(*) > 1`
  return [...captures, ...refunds]
}

/** Each event must be stored once, even if its notification was lost, and must be applied or ignored. */
async function notificationsOnce(system: System, switches: Switch[]): Promise<Problem[]> {
  const { sql, provider } = system
  const doubled = await sql<Problem[]>`
    select 'a notification was stored twice' as problem, event_id, count(*) as times from notifications
    group by provider, account, event_id having count(*) > 1`
  const unapplied = await sql<Problem[]>`
    select 'a notification was accepted and not applied' as problem, n.id, n.kind, n.state, n.reason, j.state as job
    from notifications n left join jobs j on j.id = n.id
    where n.state not in ('applied', 'ignored')
      -- Notifications of another application are parked for five minutes and then ignored. These are still parked.
      and not (n.state = 'parked' and n.reason = 'not_ours' and not exists (
        select from (
          select processor_reference as reference from payments
          union all select processor_reference from payouts
          union all select processor_reference from top_ups
          union all select provider_reference from verifications) ours
        where ours.reference = coalesce(n.payload #>> '{data,object,payment_intent}', n.object_id)))`
  const { given_up } = await provider('stripe').control('GET', '/webhooks')
  const undelivered = given_up > 0 ? [{ problem: 'notifications did not arrive', given_up }] : []
  const { missed, acknowledged } = await missingNotifications(system)
  const named = (problem: string, ids: string[]) => ids.map((event_id) => ({ problem, event_id }))
  return [
    ...doubled,
    ...unapplied,
    ...undelivered,
    // After a switch, only events of handled types are read again.
    ...named('a notification was answered 200 and is lost', switches.length === 0 ? acknowledged : []),
    ...named('a lost notification was not read from the event list', missed),
  ]
}

/** The observations of resources that no interrupted scenario has created. */
function uninterruptedObservations(record: ClientRecord): Observations {
  const interrupted = new Set<string>()
  for (const { key, id } of record.accepted.values()) if (isInterrupted(record, key)) interrupted.add(id)
  return new Map([...record.observations].filter(([id]) => !interrupted.has(id)))
}

function readLines(path: string): AsyncIterable<string> {
  return createInterface({ input: createReadStream(path) })
}

type StoredKey = { key: string; id: string; state: string | null; job_missing: boolean; finished: boolean }

/** Each accepted request must have its row and its job, and the answers must match the final state. */
async function acceptedRequests(
  system: System,
  record: ClientRecord,
): Promise<{ problems: Problem[]; finished: Set<string> }> {
  const { sql } = system
  const keys = await sql<StoredKey[]>`
    select k.key, k.resource_id as id, j.state, k.job_id is not null and j.id is null as job_missing,
      k.job_id is null or j.finished_at is not null as finished
    from idempotency_keys k left join all_jobs j on j.id = k.job_id`
  const stored_keys = new Map(keys.map((row) => [row.key, row]))
  const rows = await sql<{ id: string; status: string; amount: number | null }[]>`
    select id, 'there' as status, null::bigint as amount from customers
    union all select id, 'there', null from merchants
    union all select id, 'there', null from recipients
    union all select id, status, amount_captured_minor from payments
    union all select id, status, amount_minor from refunds
    union all select id, status, amount_minor from top_ups
    union all select id, status, amount_minor from payouts
    union all select id, status, null from verifications
    union all select id, status, null from messages`
  const resources = new Map(rows.map((row) => [row.id, row]))
  const losses = await lossesOf(system)
  const named = new Set(losses.named.map(({ key }) => key))
  const problems: Problem[] = []
  const finished = new Set<string>()
  for (const request of record.accepted.values()) {
    const row = stored_keys.get(request.key)
    const resource = resources.get(request.id)
    if (isInterrupted(record, request.key)) {
      const is_recorded = request.at >= losses.recorded_since
      if (is_recorded && resource === undefined && !named.has(request.key))
        problems.push({ problem: NEITHER_BACK_NOR_NAMED, ...request })
    } else if (row === undefined || resource === undefined)
      problems.push({ problem: 'an accepted request is lost', ...request })
    else if (row.job_missing) problems.push({ problem: 'the job of an accepted request is lost', ...request })
    else if (row.id !== request.id)
      problems.push({ problem: 'a key has another resource', ...request, ours: row.id })
    else if (contradicts(request, resource))
      problems.push({ problem: 'an answer contradicts the final state', ...request, resource })
    if (row?.finished) finished.add(request.key)
  }
  return { problems, finished }
}

/** A final status and its amount never change. */
function contradicts(
  { status, amount_minor }: Accepted,
  now: { status: string; amount: number | null },
): boolean {
  if (!isFinal(status)) return false
  const settled = status === 'captured' || status === 'succeeded'
  return now.status !== status || (settled && now.amount !== amount_minor)
}

// One run: the load, the scheduled faults, the end, and the verdict.
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Problem } from '#test/invariants.ts'
import { openWork } from '#test/open-work.ts'
import { until } from '#test/process.ts'
import type { Fault, FaultProblem } from './faults/fault.ts'
import { FAULTS } from './faults/list.ts'
import { injectBackgroundFaults } from './faults/provider.ts'
import { metricOf } from './metrics.ts'
import { startLoad, type Load } from './load.ts'
import { seeded } from './random.ts'
import type { PlannedFault } from './schedule.ts'
import { makeNotificationsPrompt, makeNotificationsUnreliable } from './notifications.ts'
import { startSystem, type System } from './system.ts'
import type { QueueServer } from './queue-servers.ts'
import { describe, describeEnds, describeEvents, describeMessages, type Inflicted } from './table.ts'
import { judge, settle, type Verdict } from './verdict/verdict.ts'

const RECOVERY_LIMIT_MS = { patient: 60_000, impatient: 15_000 }
const SCENARIOS_LIMIT_MS = 160_000
/** Includes up to a minute for late notifications. */
const SETTLE_LIMIT_MS = 120_000
const MIN_REQUESTS_PER_SCENARIO = 4
/** Time limit of a fault, in addition to its estimated duration. */
const FAULT_LIMIT_MS = 120_000
const DIRECT_CLAIMS = 'sluice_jobs_claimed_directly_total'
const WAKE_UPS_WINDOW_MS = 500
/**
 * Maximum number of jobs that a worker may claim without a wake-up during `WAKE_UPS_WINDOW_MS`. In this time a worker
 * claims about forty jobs.
 */
const MAX_DIRECT_CLAIMS = 2

export type RunOptions = {
  seed: number
  length_ms: number
  scenarios_per_s: number
  queue: QueueServer
  /** Whether the processes reach PostgreSQL through PgBouncer. */
  pooler: boolean
  schedule: PlannedFault[]
  /** The project's folder or a mutated copy. */
  root: string
  /** Time limits are short, because a problem is expected. */
  impatient: boolean
  /** Times and rates are printed, but not judged. */
  lenient: boolean
  print: (line: string) => void
  /** Overwrites the previous line on a terminal. */
  progress: (line: string) => void
  /** See `SystemOptions`. */
  targets_folder: string | undefined
  stopped: AbortSignal
  /** Called when everything has ended after an interruption. Ends this process. */
  onStopped: (folder: string) => void
}

export type Result = { problems: Problem[]; folder: string; system: System }

/** Runs to the end; the caller stops the system. If it throws, everything is stopped and the folder is kept. */
export async function run(options: RunOptions): Promise<Result> {
  const { queue, root, print } = options
  const inflicted: Inflicted[] = []
  const problems: FaultProblem[] = []
  const system = await startSystem({
    queue,
    root,
    pooler: options.pooler,
    restorable: options.schedule.some(({ fault }) => faultOf(fault).switches === true),
    random: seeded(options.seed, -4_000_000),
    targets_folder: options.targets_folder,
    onOutputLine(_name, line) {
      const current = inflicted.at(-1)
      if (current && line.includes('a late write was fenced')) current.fenced++
      if (line.includes('"event":"audit.failed"'))
        problems.push({ problem: 'an audit during the run found a problem', line })
    },
    onEnd: (name, how) => void problems.push({ problem: 'a process ended unexpectedly', name, how }),
  })
  try {
    return await runSystem(system, options, inflicted, problems)
  } catch (error) {
    await system.stop()
    print(`logs and schedule are in ${system.folder}`)
    throw error
  }
}

async function runSystem(
  system: System,
  options: RunOptions,
  inflicted: Inflicted[],
  problems: FaultProblem[],
): Promise<Result> {
  const { seed, schedule, length_ms, scenarios_per_s, queue, print, stopped } = options
  // Stops the system immediately, because running work cannot continue.
  const closing = () => void system.stop().finally(() => options.onStopped(system.folder))
  if (stopped.aborted) closing()
  stopped.addEventListener('abort', closing)
  await writeFile(
    join(system.folder, 'schedule.json'),
    `${JSON.stringify({ seed, queue, length_ms, scenarios_per_s, schedule }, null, 2)}\n`,
  )
  await injectBackgroundFaults(system, seeded(seed, -2_000_000))
  await makeNotificationsUnreliable(system, length_ms)
  const load = startLoad(system, seed, scenarios_per_s)
  const started_at = performance.now()
  const ticker = setInterval(() => {
    const left_s = Math.round((length_ms - (performance.now() - started_at)) / 1000)
    const time = left_s >= 0 ? `${left_s} s left` : `${-left_s} s late`
    const { requests } = load.record
    const per_s = Math.round(requests / ((performance.now() - started_at) / 1000))
    options.progress(
      `${time}, ${requests} requests (${per_s}/s), ${load.open()} scenarios running, ${inflicted.length} faults`,
    )
  }, 1000)

  for (const planned of schedule) {
    await sleep(Math.max(0, started_at + planned.at_ms - performance.now()), undefined, { signal: stopped })
    problems.push(...(await inflict(system, load, planned, inflicted, options)))
  }
  await sleep(Math.max(0, started_at + length_ms - performance.now()), undefined, { signal: stopped })
  const per_s = load.record.requests / ((performance.now() - started_at - load.pausedMs()) / 1000)
  const { requests } = load.record
  await system.provider('stripe').control('DELETE', '/faults')
  await makeNotificationsPrompt(system)
  await endRunLeases(system)
  system.receivers.acceptAll()
  print('waiting until everything is settled')
  const limits = options.impatient ? [10_000, 10_000] : [SCENARIOS_LIMIT_MS, SETTLE_LIMIT_MS]
  const all_ended = await Promise.race([
    load.stop().then(() => true),
    sleep(limits[0], false, { ref: false }),
  ])
  if (!all_ended) problems.push({ problem: 'scenarios have not ended', open: load.open() })
  if (!(await settle(system, limits[1]!)))
    problems.push({ problem: 'work is still open', open: await openWork(system.sql) })
  clearInterval(ticker)
  const verdict: Verdict = await judge(system, load.record)
  verdict.problems.push(...(options.lenient ? await withoutFinishedJobs(system, problems) : problems))
  if (!options.lenient && per_s < MIN_REQUESTS_PER_SCENARIO * scenarios_per_s)
    verdict.problems.push({ problem: 'the load was too low to judge', requests, per_s: Math.round(per_s) })
  const answers = [...load.record.answers].map(([answer, count]) => `${answer}: ${count}`).toSorted()
  print(`\n${describe(inflicted, load.record, verdict)}\n`)
  print(
    `${requests} requests, ${Math.round(per_s)} a second; answers ${answers.join(', ')}; ${verdict.unknown} jobs unknown`,
  )
  print(describeEnds(verdict.ends))
  print(describeMessages(verdict))
  print(describeEvents(verdict.events))
  const { payments, calls, took_ms } = verdict.histories
  const { dropped, delayed } = await system.provider('stripe').control('GET', '/webhooks')
  print(
    `checked that a serial order explains the results of ${calls} calls on ${payments} payments, in ${Math.round(took_ms)} ms`,
  )
  print(`${dropped} notifications were lost and ${delayed} late`)
  stopped.removeEventListener('abort', closing)
  await writeFile(join(system.folder, 'problems.json'), `${JSON.stringify(verdict.problems, null, 2)}\n`)
  return { problems: verdict.problems, folder: system.folder, system }
}

async function inflict(
  system: System,
  load: Load,
  planned: PlannedFault,
  inflicted: Inflicted[],
  { print, impatient, lenient }: RunOptions,
): Promise<FaultProblem[]> {
  const fault = faultOf(planned.fault)
  const started_at = performance.now()
  const record: Inflicted = { fault: fault.name, at: started_at, recovery_ms: null, fenced: 0 }
  inflicted.push(record)
  const problems: FaultProblem[] = []
  const refused_before = load.countRefused()
  const limit_ms = RECOVERY_LIMIT_MS[impatient ? 'impatient' : 'patient']
  let lifted_at = started_at
  try {
    problems.push(...((await withinLimit(fault, fault.inflict(system, seeded(planned.seed), load))) ?? []))
    lifted_at = performance.now()
    await untilRecovered(system, load, limit_ms)
    if (fault.transparent) await untilWakeUpsArrive(system, limit_ms)
    record.recovery_ms = performance.now() - (fault.recovery_from === 'beginning' ? started_at : lifted_at)
  } catch (error) {
    problems.push({ problem: 'the system did not recover', fault: fault.name, error: String(error) })
  }
  if (!lenient && fault.transparent && load.countRefused() > refused_before)
    problems.push({
      problem: 'clients were refused',
      fault: fault.name,
      times: load.countRefused() - refused_before,
    })
  if (fault.fences && !(await waitFor(() => record.fenced > 0, limit_ms)))
    problems.push({ problem: 'no late write was fenced', fault: fault.name })
  const { recovery_ms } = record
  if (!lenient && recovery_ms !== null && recovery_ms > fault.recovery_limit_ms)
    problems.push({
      problem: 'recovery took too long',
      fault: fault.name,
      recovery_ms,
      recovery_limit_ms: fault.recovery_limit_ms,
    })
  const after =
    recovery_ms === null ? 'did not recover' : `recovered after ${(recovery_ms / 1000).toFixed(1)} s`
  print(`${fault.name}: ${((lifted_at - started_at) / 1000).toFixed(1)} s, ${after}`)
  return problems
}

/**
 * Ends the leases of recurring work, and makes work that failed due. A worker that died may have had the lease of the
 * event list for another minute, in which nothing but the event list would show what clients wait for.
 */
async function endRunLeases({ sql }: System): Promise<void> {
  await sql`
    update recurring_work set lease_until = least(lease_until, now()), due_at = least(due_at, now())
    where lease_until is not null or failing_since is not null`
}

function faultOf(name: string): Fault {
  return FAULTS.find((fault) => fault.name === name)!
}

/** Removes reports of late jobs that have finished since then, or that wait on purpose. */
async function withoutFinishedJobs({ sql }: System, problems: FaultProblem[]): Promise<Problem[]> {
  const late_jobs = problems.flatMap(({ late_job }) => (late_job === undefined ? [] : [late_job]))
  const open = await sql<{ id: string }[]>`
    select id from jobs where id = any(${late_jobs}::uuid[]) and finished_at is null and state <> 'unknown' and run_at <= now()`
  const ids = new Set(open.map(({ id }) => id))
  return problems.filter(({ late_job }) => late_job === undefined || ids.has(late_job))
}

async function withinLimit<T>(fault: Fault, work: Promise<T>): Promise<T> {
  const limit_ms = fault.duration_ms + FAULT_LIMIT_MS
  const timeout = sleep(limit_ms, undefined, { ref: false }).then(() => {
    throw new Error(`the fault has not ended after ${limit_ms} ms`)
  })
  return await Promise.race([work, timeout])
}

async function waitFor(holds: () => boolean, limit_ms: number): Promise<boolean> {
  for (const deadline = performance.now() + limit_ms; !holds(); await sleep(50))
    if (performance.now() > deadline) return false
  return true
}

/** Waits until jobs are claimed after wake-ups and no longer found by scanning the database. */
async function untilWakeUpsArrive({ workers }: System, limit_ms: number): Promise<void> {
  const deadline = performance.now() + limit_ms
  const direct = async () => await Promise.all(workers.map((worker) => metricOf(worker, DIRECT_CLAIMS)))
  for (let before = await direct(); ;) {
    await sleep(WAKE_UPS_WINDOW_MS)
    const now = await direct()
    if (now.every((count, index) => count - before[index]! <= MAX_DIRECT_CLAIMS)) return
    if (performance.now() > deadline) throw new Error('jobs are still claimed without wake-ups')
    before = now
  }
}

/** Waits until a payment succeeds on each API and all jobs that ran when the fault ended were claimed again. */
async function untilRecovered({ sql }: System, load: Load, limit_ms: number): Promise<void> {
  // A job whose lease was renewed still runs at its worker, and counts as claimed.
  const running = await sql<{ id: string; attempt: number; lease_until: string }[]>`
    select id, attempt, lease_until::text from jobs where state = 'running'`
  await Promise.all([load.probe(0, limit_ms), load.probe(1, limit_ms)])
  const isReclaimed = async () => {
    const [row] = await sql<{ orphans: boolean }[]>`
      select exists (
        select from jsonb_to_recordset(${sql.json([...running])}) as h(
          id uuid, attempt integer, lease_until timestamptz)
        join jobs j using (id, attempt, lease_until) where j.state = 'running') as orphans`
    return !row!.orphans
  }
  await until('no job has an expired lease', isReclaimed, limit_ms)
}

// Upgrades the previous release under load, with much history and a session that forgot its `begin`.
import { rm } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import postgres from 'postgres'
import type { Answer, Client } from '#test/client.ts'
import type { Problem } from '#test/invariants.ts'
import { migrateWithForgottenSession, type OperatorMigration } from '#test/operator-migration.ts'
import { nextRelease, previousRelease } from '#test/previous-release.ts'
import { startLoad } from '../load.ts'
import { deploy } from '../member.ts'
import type { QueueServer } from '../queue-servers.ts'
import { seeded } from '../random.ts'
import { startSystem, type System } from '../system.ts'
import { judge, settle } from '../verdict/verdict.ts'
import { countHistory, insertHistory, removeHistory } from './history.ts'

/** Few, because both releases, their servers and the clients share the machine while processes start. */
export const UPGRADE_SCENARIOS_PER_S = 5
const MAX_REQUEST_MS = 3_000
const BEFORE_MS = 5_000
/** Both releases serve side by side for this time. */
const SIDE_BY_SIDE_MS = 5_000
/** The operator ends the blocking session after this number of reports. */
const REPORTS = 4
const SCENARIOS_LIMIT_MS = 120_000
const SETTLE_LIMIT_MS = 120_000

export type UpgradeOptions = {
  runs: number
  rows: number
  seed: number
  scenarios_per_s: number
  queue: QueueServer
  print: (line: string) => void
  stopped: AbortSignal
}

/** `at`: on the clock of `performance.now()`. */
type Request = { path: string; status: number; at: number; took_ms: number }

type Upgrade = OperatorMigration & {
  slowest_ms: number
  deadlocks: number
  requests: number
  problems: Problem[]
}

/** Returns whether no run found a problem. Prints a row of the table for each run. */
export async function runUpgrades(options: UpgradeOptions): Promise<boolean> {
  const { runs, print, stopped } = options
  await using cleanup = new AsyncDisposableStack()
  const previous = await previousRelease()
  cleanup.defer(previous.remove)
  const next = await nextRelease()
  cleanup.defer(next.remove)
  let good = true
  print('| run | requests | slowest request | deadlocks | tries | migration | problems |')
  print('|---:|---:|---:|---:|---:|---:|---|')
  for (let run = 1; run <= runs && !stopped.aborted; run++) {
    const { requests, slowest_ms, deadlocks, tries, duration_ms, problems } = await upgradeOnce(
      { previous: previous.path, next: next.path },
      { ...options, seed: options.seed + run - 1 },
    )
    const found = [...new Set(problems.map(({ problem }) => problem))]
    const columns = [run, requests, `${Math.round(slowest_ms)} ms`, deadlocks, tries]
    print(`| ${columns.join(' | ')} | ${(duration_ms / 1000).toFixed(1)} s | ${found.join('; ') || 'none'} |`)
    for (const problem of problems.slice(0, 20)) print(JSON.stringify(problem))
    good &&= problems.length === 0
  }
  return good && !stopped.aborted
}

async function upgradeOnce(
  releases: { previous: string; next: string },
  { rows, seed, scenarios_per_s, queue, stopped }: UpgradeOptions,
): Promise<Upgrade> {
  const problems: Problem[] = []
  const system = await startSystem({
    queue,
    root: releases.previous,
    random: seeded(seed, -4_000_000),
    onOutputLine: () => {},
    onEnd: (name, how) => void problems.push({ problem: 'a process ended unexpectedly', name, how }),
  })
  try {
    const upgrade = await upgradeSystem(system, releases.next, { rows, seed, scenarios_per_s, stopped })
    const { deadlocks } = upgrade
    if (deadlocks > 0) problems.push({ problem: 'the database ended a statement in a deadlock', deadlocks })
    problems.push(...upgrade.problems)
    return { ...upgrade, problems }
  } finally {
    await system.stop()
    if (problems.length === 0) await rm(system.folder, { recursive: true, force: true })
  }
}

async function upgradeSystem(
  system: System,
  next: string,
  {
    rows,
    seed,
    scenarios_per_s,
    stopped,
  }: Pick<UpgradeOptions, 'rows' | 'seed' | 'scenarios_per_s' | 'stopped'>,
): Promise<Upgrade> {
  const { sql, postgres: server } = system
  // A process's own pool ends statements that take as long as these.
  const owner = postgres(server.url, { max: 1, onnotice: () => {} })
  system.onStop(() => owner.end())
  await insertHistory(owner, rows)
  const requests: Request[] = []
  const load = startLoad(
    {
      ...system,
      clients: system.clients.map((client) => measured(client, requests)),
      newTenant: async () => (await system.newTenant()).map((client) => measured(client, requests)),
    },
    seed,
    scenarios_per_s,
  )
  await sleep(BEFORE_MS, undefined, { signal: stopped })
  const env = { DATABASE_URL: server.url, QUEUE: system.redis === null ? 'postgres' : 'redis' }
  const migrated_from = performance.now()
  const migration = await migrateWithForgottenSession({ path: next }, server.url, env, REPORTS)
  const [first, second] = [system.apis[0]!, system.apis[1]!]
  for (const member of [first, system.workers[0]!]) await deploy(member, next)
  await sleep(SIDE_BY_SIDE_MS, undefined, { signal: stopped })
  for (const member of [second, system.workers[1]!]) await deploy(member, next)
  await sleep(BEFORE_MS, undefined, { signal: stopped })

  const problems: Problem[] = []
  const ended = await Promise.race([
    load.stop().then(() => true),
    sleep(SCENARIOS_LIMIT_MS, false, { ref: false }),
  ])
  if (!ended) problems.push({ problem: 'scenarios have not ended', open: load.open() })
  const history = await countHistory(owner)
  if (history.rows !== rows) problems.push({ problem: 'rows of the history are lost', ...history })
  if (history.unfilled > 0) problems.push({ problem: 'rows of the history were not filled', ...history })
  await removeHistory(owner)
  if (!(await settle(system, SETTLE_LIMIT_MS))) problems.push({ problem: 'work is still open' })
  const verdict = await judge(system, load.record)
  const slowest = requests.filter(isJudged).toSorted((a, b) => b.took_ms - a.took_ms)
  const [database] = await sql<{ deadlocks: number }[]>`
    select deadlocks::integer as deadlocks from pg_stat_database where datname = current_database()`
  return {
    ...migration,
    slowest_ms: slowest[0]!.took_ms,
    deadlocks: database!.deadlocks,
    requests: requests.length,
    problems: [
      ...problems,
      ...verdict.problems,
      ...slowest
        .filter(({ took_ms }) => took_ms > MAX_REQUEST_MS)
        .map(({ at, ...request }) => ({
          problem: 'a request was too slow',
          ...request,
          at_ms: at - migrated_from,
        })),
    ],
  }
}

/** Not judged: a 202 waits as long as the client asks for, and a message for a provider that is slow on purpose. */
const isJudged = ({ path, status }: Request) => status !== 202 && !path.startsWith('/v1/messages/')

/** The same client, which records its answered requests. */
function measured(client: Client, requests: Request[]): Client {
  const timed = async (path: string, answer: Promise<Answer>): Promise<Answer> => {
    const at = performance.now()
    const result = await answer
    requests.push({ path, status: result.status, at, took_ms: performance.now() - at })
    return result
  }
  return {
    ...client,
    get: (path, ...rest) => timed(path, client.get(path, ...rest)),
    post: (path, ...rest) => timed(path, client.post(path, ...rest)),
    patch: (path, ...rest) => timed(path, client.patch(path, ...rest)),
    delete: (path) => timed(path, client.delete(path)),
    send: (method, path, ...rest) => timed(path, client.send(method, path, ...rest)),
  }
}

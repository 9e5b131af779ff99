// `npm run torture`: injects faults under load and checks that nothing is lost and nothing happens twice.
import { rm } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import type { Problem } from '#test/invariants.ts'
import { FAULTS } from './faults/list.ts'
import { patchedCopy } from './copy.ts'
import { MUTATIONS } from './mutations/list.ts'
import type { Mutation } from './mutations/mutation.ts'
import { SCENARIOS_PER_S } from './load.ts'
import { run } from './run.ts'
import { planFaults } from './schedule.ts'
import { runUpgrades, UPGRADE_SCENARIOS_PER_S } from './upgrade/run.ts'
import { QUEUE_SERVERS, type QueueServer } from './queue-servers.ts'

const ROOT = fileURLToPath(new URL('../', import.meta.url))

const STOP_LIMIT_MS = 15_000

const HELP = `npm run torture: real processes and servers under load and faults. Nothing may be lost and nothing may happen twice.
Clients create customers, payments, top-ups, payouts, verifications, emails and SMS, and capture, refund, cancel, fail and decide them
while changes also happen at the providers. Event receivers accept deliveries, one of them with errors, and clients follow the feed.

  npm run torture -- --seed 7 --minutes 2 --queue redis

--seed N          seed of the faults and the load. Default: random, and printed
--minutes M       duration of the faults. Default: 1. The end takes up to five minutes more
--rate N          scenarios per second. Default: ${SCENARIOS_PER_S}, about 140 requests per second; with --mode upgrade
                  ${UPGRADE_SCENARIOS_PER_S}. Recovery times mean little on a saturated machine
--lenient         prints recovery times, load and refusals without judging them, for machines with other work
--targets FOLDER  writes the addresses of the metrics into FOLDER, as deploy/prometheus/prometheus.yaml reads them
--queue Q         redis, postgres, cluster (Redis with three masters and three replicas) or sentinels (a primary, a replica
                  and three Sentinels). Default: redis
--pooler          puts PgBouncer in transaction mode before PostgreSQL; needs a queue on Redis
--fault a,b       only these faults:
${FAULTS.map(({ name, about, minutes }) => `                    ${name.padEnd(26)} ${about}${minutes ? ` (in runs of ${minutes} minutes or more)` : ''}`).join('\n')}
--mode upgrade    instead of faults: starts the previous release (test/previous-release) with much history, and upgrades it to this
                  one under load, while a session that forgot its begin holds locks. No request may take longer than 3 s
  --runs N        number of upgrades. Default: 1
  --rows N        rows of history. Default: 1500000
--mutate NAME     removes a protection; succeeds if the run fails with the problem that the mutation names. One of:
${MUTATIONS.map(({ name, about }) => `                    ${name.padEnd(26)} ${about}`).join('\n')}

The queue on Redis needs redis-server or valkey-server on the PATH. Everything else is started on free ports, with data in a
temporary folder, which is kept after a failure (logs, schedule, problems). Exit code 0: no problem was found.`

const { values } = parseArgs({
  options: {
    seed: { type: 'string' },
    minutes: { type: 'string' },
    rate: { type: 'string' },
    queue: { type: 'string', default: 'redis' },
    fault: { type: 'string' },
    targets: { type: 'string' },
    pooler: { type: 'boolean', default: false },
    mutate: { type: 'string' },
    mode: { type: 'string', default: 'faults' },
    runs: { type: 'string' },
    rows: { type: 'string' },
    lenient: { type: 'boolean', default: false },
    help: { type: 'boolean', short: 'h' },
  },
})

const stopping = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.on(signal, () => (stopping.signal.aborted ? process.exit(130) : stopping.abort()))

/** Returns the exit code. */
async function main(): Promise<number> {
  if (values.help === true) {
    print(HELP)
    return 0
  }
  const seed = number('seed', Math.floor(Math.random() * 1_000_000))
  const { queue, pooler } = values
  if (!isQueueServer(queue)) throw new Error(`--queue must be one of ${QUEUE_SERVERS.join(', ')}`)
  if (values.mode === 'upgrade') {
    const [runs, rows, scenarios_per_s] = [
      number('runs', 1),
      number('rows', 1_500_000),
      number('rate', UPGRADE_SCENARIOS_PER_S),
    ]
    const options = { runs, rows, seed, scenarios_per_s, queue, print, stopped: stopping.signal }
    return (await runUpgrades(options)) ? 0 : 1
  }
  if (values.mode !== 'faults') throw new Error('--mode must be faults or upgrade')
  if (pooler && queue === 'postgres') throw new Error('--pooler needs a queue on Redis')
  const mutation = values.mutate === undefined ? null : findNamed('mutate', values.mutate, MUTATIONS)
  const minutes = number('minutes', mutation ? 0.4 : 1)
  const scenarios_per_s = number('rate', SCENARIOS_PER_S)
  const fault_names = values.fault?.split(',') ?? mutation?.faults
  const faults =
    fault_names?.map((name) => findNamed('fault', name, FAULTS)) ??
    FAULTS.filter((fault) => (fault.minutes ?? 0) <= minutes)
  const possible = faults.filter(
    (fault) => fault.on?.includes(queue) !== false && (pooler || fault.needs_pooler !== true),
  )
  if (possible.length === 0)
    throw new Error(
      `none of these faults is possible with --queue ${queue}${pooler ? '' : ' without --pooler'}`,
    )
  const length_ms = minutes * 60_000
  const schedule = planFaults(possible, seed, length_ms)
  print(
    `seed ${seed}, ${minutes} minutes, queue on ${queue}: ${schedule.map(({ fault }) => fault).join(', ')}`,
  )

  const copy = mutation && (await patchedCopy(ROOT, mutation.patches))
  if (mutation) print(`without ${mutation.name}; expected problem: ${mutation.expect}`)
  try {
    const { problems, folder, system } = await run({
      seed,
      length_ms,
      scenarios_per_s,
      queue,
      pooler,
      schedule,
      print,
      progress,
      root: copy?.path ?? ROOT,
      impatient: mutation !== null,
      lenient: values.lenient,
      targets_folder: values.targets,
      stopped: stopping.signal,
      onStopped(folder) {
        void Promise.all([rm(folder, { recursive: true, force: true }), copy?.remove()]).finally(() => {
          print('stopped')
          process.exit(130)
        })
      },
    })
    await system.stop()
    const found = Map.groupBy(problems, ({ problem }) => problem)
    for (const [problem, all] of found) print(`${problem} (${all.length}), e.g. ${example(all[0]!)}`)
    return await printVerdict(mutation, found, folder)
  } finally {
    await copy?.remove()
  }
}

/** A problem as one line, followed by the lines of its history. */
function example({ history, ...facts }: Problem): string {
  return [JSON.stringify(facts), ...(Array.isArray(history) ? history : [])].join('\n')
}

async function printVerdict(
  mutation: Mutation | null,
  found: Map<string, unknown[]>,
  folder: string,
): Promise<number> {
  const good = mutation === null ? found.size === 0 : found.has(mutation.expect)
  if (good) await rm(folder, { recursive: true, force: true })
  else print(`logs, schedule and problems are in ${folder}`)
  if (mutation === null) print(good ? 'No problems.' : 'Problems were found.')
  else if (good) print(`Found as expected: ${mutation.expect}. The removal of ${mutation.name} is detected.`)
  else print(`The removal of ${mutation.name} was NOT detected by: ${mutation.expect}.`)
  return good ? 0 : 1
}

function number(name: 'seed' | 'minutes' | 'rate' | 'runs' | 'rows', fallback: number): number {
  const value = Number(values[name] ?? fallback)
  if (!Number.isFinite(value) || value < 0 || (name !== 'seed' && value === 0))
    throw new Error(`--${name} must be a number${name !== 'seed' ? ' above 0' : ''}`)
  return value
}

function isQueueServer(name: string): name is QueueServer {
  return (QUEUE_SERVERS as readonly string[]).includes(name)
}

function findNamed<T extends { name: string }>(option: string, name: string, all: T[]): T {
  const found = all.find((one) => one.name === name)
  if (found === undefined) throw new Error(`--${option}: there is no "${name}". See --help.`)
  return found
}

let overwritable = false
function print(line: string): void {
  process.stdout.write(`${overwritable ? '\r\u001b[2K' : ''}${line}\n`)
  overwritable = false
}

let last_plain = 0
function progress(line: string): void {
  if (process.stdout.isTTY) {
    process.stdout.write(`\r\u001b[2K${line}`)
    overwritable = true
  } else if (performance.now() - last_plain > 5000) {
    last_plain = performance.now()
    print(line)
  }
}

process.exitCode = await main().catch(async (error: unknown) => {
  // Errors while the system is being stopped are ignored. `onStopped` ends the process.
  if (stopping.signal.aborted) return await sleep(STOP_LIMIT_MS, 130)
  process.stderr.write(`${error instanceof Error ? error.stack : String(error)}\n`)
  return 1
})
process.exit()

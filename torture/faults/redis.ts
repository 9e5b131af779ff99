// Redis faults: wiped, killed, refusing commands, silent, slow, down while a worker starts.
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import type { Problem } from '#test/invariants.ts'
import type { Proxy } from '#test/proxy.ts'
import { until } from '#test/process.ts'
import type { Random } from '../random.ts'
import type { System } from '../system.ts'
import type { Fault } from './fault.ts'
import { callsAfterPause, pauseCalls, resumeCalls } from './pause.ts'

const SINGLE_SERVER = {
  on: ['redis'],
  duration_ms: 3200,
  recovery_limit_ms: 5000,
  transparent: true,
} as const
/** A Cluster needs some time to elect a new primary. */
const ANY_SERVERS = { ...SINGLE_SERVER, on: ['redis', 'cluster', 'sentinels'] } as const
const HALF_OPEN_LIMIT_MS = 30_000
const OUTAGE_MS = 10 * 60_000

export const REDIS_FAULTS: Fault[] = [
  { ...ANY_SERVERS, name: 'flushall', about: 'repeated FLUSHALL', inflict: flush },
  {
    ...ANY_SERVERS,
    name: 'pause-flushall',
    about:
      'FLUSHALL while all queues that call a provider are paused: no call may start more than 1 s after the pause',
    duration_ms: 4900,
    inflict: pauseAndFlush,
  },
  {
    ...ANY_SERVERS,
    name: 'kill-redis',
    about: 'kill -9 of Redis, or of the server of the payments queue; it restarts empty',
    async inflict({ redis }, random) {
      await redis!.kill()
      await sleep(random.between(0, 2000))
      await redis!.start()
    },
  },
  {
    ...SINGLE_SERVER,
    name: 'redis-readonly',
    about: 'Redis answers READONLY, as a replica does',
    inflict: (system, random) =>
      whileConfigured(system, random, [['replicaof', '127.0.0.1', '1']], [['replicaof', 'no', 'one']]),
  },
  {
    ...SINGLE_SERVER,
    name: 'redis-misconf',
    about: 'Redis answers MISCONF, as if it could not save',
    inflict: (system, random) =>
      whileConfigured(
        system,
        random,
        [['config', 'set', 'dir', '/proc', 'save', '3600 1'], ['bgsave']],
        [['config', 'set', 'dir', '/tmp', 'save', '']],
      ),
  },
  {
    ...SINGLE_SERVER,
    name: 'redis-oom',
    about: 'Redis answers OOM: its memory is full',
    inflict: (system, random) =>
      whileConfigured(
        system,
        random,
        [['config', 'set', 'maxmemory', '1']],
        [['config', 'set', 'maxmemory', '0']],
      ),
  },
  {
    ...SINGLE_SERVER,
    name: 'redis-loading',
    about: 'Redis answers LOADING to everything, as after a start',
    async inflict({ wires }, random) {
      wires.redis!.answerWith((request) =>
        // A command is an array of bulk strings. Each command gets an error.
        '-LOADING Redis is loading the dataset in memory\r\n'.repeat(
          request.toString('latin1').match(/(?:^|\r\n)\*\d+\r\n/g)?.length ?? 1,
        ),
      )
      await sleep(random.between(1000, 3000))
      wires.redis!.answerWith(null)
    },
  },
  {
    ...SINGLE_SERVER,
    name: 'redis-half-open',
    about: 'the connections to Redis stay open and carry nothing',
    duration_ms: 1500,
    recovery_limit_ms: 30_000,
    recovery_from: 'beginning',
    inflict: ({ wires }) => freeze(wires.redis!),
  },
  {
    ...SINGLE_SERVER,
    name: 'redis-reset',
    about: 'the connections to Redis are cut repeatedly',
    inflict: async ({ wires }, random) => await cutRepeatedly(wires.redis!, random),
  },
  {
    ...SINGLE_SERVER,
    name: 'redis-slow',
    about: 'Redis answers late',
    inflict: async ({ wires }, random) => {
      wires.redis!.delay(random.between(50, 250))
      await sleep(3000)
      wires.redis!.delay(0)
    },
  },
  {
    ...SINGLE_SERVER,
    name: 'redis-down-at-boot',
    about: 'a worker starts while Redis is down',
    duration_ms: 4300,
    async inflict({ redis, workers }, random) {
      const worker = random.pick(workers)
      await Promise.all([redis!.kill(), worker.kill()])
      await worker.start()
      await sleep(random.between(500, 1500))
      await redis!.start()
    },
  },
  {
    ...SINGLE_SERVER,
    name: 'redis-away',
    about: 'Redis is down for ten minutes: requests are accepted and finished throughout',
    duration_ms: OUTAGE_MS,
    minutes: 12,
    inflict: runWithoutRedis,
  },
]

/** Freezes all connections and waits until the clients have closed them. */
export async function freeze(wire: Proxy): Promise<void> {
  wire.freeze()
  await until('frozen connections are closed', () => wire.frozen() === 0, HALF_OPEN_LIMIT_MS)
}

export async function cutRepeatedly(wire: Proxy, random: Random): Promise<void> {
  for (let times = 0; times < 5; times++) {
    wire.cut()
    await sleep(random.between(50, 500))
  }
}

/** Runs the commands `on`, and after 1.5 to 3 seconds the commands `undo`. Connects directly, without the proxy. */
async function whileConfigured(
  { redis }: System,
  random: Random,
  on: string[][],
  undo: string[][],
): Promise<void> {
  const client = new Redis(redis!.url, { enableReadyCheck: false })
  client.on('error', () => {})
  const runCommands = async (commands: string[][]) => {
    for (const [command, ...args] of commands) await client.call(command!, ...args)
  }
  try {
    await runCommands(on)
    await sleep(random.between(1500, 3000))
  } finally {
    await runCommands(undo)
    client.disconnect()
  }
}

async function flush({ redis }: System, random: Random): Promise<void> {
  for (let times = 0; times < 20; times++) {
    await redis!.flush()
    await sleep(random.between(20, 200))
  }
}

/** Requests must be accepted and finished during the outage. */
async function runWithoutRedis({ redis, sql }: System): Promise<Problem[]> {
  const problems: Problem[] = []
  await redis!.kill()
  const end = performance.now() + OUTAGE_MS
  while (performance.now() < end) {
    await sleep(5000)
    const [row] = await sql<{ accepted: number; waiting: number }[]>`
      select count(*) filter (where created_at > now() - interval '5 seconds') as accepted,
        count(*) filter (where finished_at is null and state <> 'unknown' and run_at < now() - interval '5 seconds') as waiting
      from jobs where queue = 'payments' and (created_at > now() - interval '5 seconds' or finished_at is null)`
    if (row!.accepted === 0) problems.push({ problem: 'no request was accepted without Redis' })
    if (row!.waiting > 0)
      problems.push({ problem: 'jobs were not finished without Redis', jobs: row!.waiting })
  }
  await redis!.start()
  return problems
}

async function pauseAndFlush(system: System, random: Random): Promise<Problem[]> {
  const { redis } = system
  await pauseCalls(system)
  const paused_ms = Date.now()
  try {
    await sleep(random.between(500, 1500))
    await redis!.flush()
    await sleep(random.between(2500, 3500))
    return await callsAfterPause(system, paused_ms)
  } finally {
    await resumeCalls(system)
  }
}

// Redis: wiped, killed, refusing, silent, slow, away while a worker starts.
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
/** A Cluster may take its time to agree on who comes next. */
const ANY_SERVERS = { ...SINGLE_SERVER, on: ['redis', 'cluster', 'sentinels'] } as const
const HALF_OPEN_LIMIT_MS = 30_000
const OUTAGE_MS = 10 * 60_000

export const REDIS_FAULTS: Fault[] = [
  { ...ANY_SERVERS, name: 'flushall', about: 'FLUSHALL, again and again', inflict: flush },
  {
    ...ANY_SERVERS,
    name: 'pause-flushall',
    about: 'all queues that call a provider paused, and FLUSHALL meanwhile: no call may start 1 s later',
    duration_ms: 4900,
    inflict: pauseAndFlush,
  },
  {
    ...ANY_SERVERS,
    name: 'kill-redis',
    about: 'kill -9 of Redis, or of those that take writes for the payments; they come back empty',
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
    about: 'Redis answers MISCONF, as when it cannot save',
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
        // A command is an array of bulk strings; each gets its refusal.
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
    about: 'the connections to Redis are cut, again and again',
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
    about: 'a worker starts while Redis is away',
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
    about: 'Redis is away for ten minutes: all is accepted, and finished, throughout',
    duration_ms: OUTAGE_MS,
    minutes: 12,
    inflict: runWithoutRedis,
  },
]

/** What was frozen is given up by whoever waits for it. */
export async function freeze(wire: Proxy): Promise<void> {
  wire.freeze()
  await until('silent connections are given up', () => wire.frozen() === 0, HALF_OPEN_LIMIT_MS)
}

export async function cutRepeatedly(wire: Proxy, random: Random): Promise<void> {
  for (let times = 0; times < 5; times++) {
    wire.cut()
    await sleep(random.between(50, 500))
  }
}

/** On a connection past the wire. */
async function whileConfigured(
  { redis }: System,
  random: Random,
  on: string[][],
  off: string[][],
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
    await runCommands(off)
    client.disconnect()
  }
}

async function flush({ redis }: System, random: Random): Promise<void> {
  for (let times = 0; times < 20; times++) {
    await redis!.flush()
    await sleep(random.between(20, 200))
  }
}

/** What is asked for meanwhile is accepted and finished meanwhile. */
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
    if (row!.accepted === 0) problems.push({ problem: 'nothing was accepted without Redis' })
    if (row!.waiting > 0)
      problems.push({ problem: 'what was accepted without Redis was not finished', jobs: row!.waiting })
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

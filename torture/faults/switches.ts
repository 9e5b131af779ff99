// Faults after which the processes work with another database than before: restores, rolled back volumes, and standbys
// that are promoted.
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { runCommand } from '#test/commands.ts'
import { shiftWork } from '#test/restorable.ts'
import { until } from '#test/process.ts'
import { startProxy } from '#test/proxy.ts'
import type { Load } from '../load.ts'
import { STARTED, SUPERSEDED } from '../log-lines.ts'
import type { Member } from '../member.ts'
import { withPromptNotifications } from '../notifications.ts'
import type { Random } from '../random.ts'
import type { System } from '../system.ts'
import type { Fault } from './fault.ts'

/** How long the primary runs on without its standby. */
const RECEIVER_HELD_MS = 5000
/**
 * How far the clock of the standby is behind that of the primary. All servers here have one clock, so the times of the
 * work in the standby are moved instead.
 */
const CLOCK_BEHIND_MS = 3000
/** How long some processes work with the previous primary. */
const TWO_PRIMARIES_MS = 30_000

/** Longer than the processor keeps idempotency keys. */
const DAY_MS = 25 * 3_600_000

/** A time to which the database can go back. `since`: clock `performance.now()`. */
type Point = { since: number; goBack: () => Promise<void> }

const usual = { switches: true, duration_ms: 15_000, recovery_limit_ms: 10_000 } as const

export const SWITCH_FAULTS: Fault[] = [
  {
    ...usual,
    name: 'failover-sync',
    about: 'PostgreSQL crashes, and a synchronous standby takes its place',
    minutes: 5,
    async inflict({ restorable, moveDatabase }, random) {
      const standby = await restorable!.startStandby({ synchronous: true })
      await sleep(random.between(1000, 5000))
      await restorable!.postgres.crash()
      await standby.promote()
      moveDatabase(standby.url)
    },
  },
  {
    ...usual,
    name: 'failover-async',
    about:
      'PostgreSQL crashes, and a standby five seconds behind it, with a clock three behind, takes its place',
    minutes: 30,
    async inflict(system, _, load) {
      const { restorable, moveDatabase } = system
      await load.withoutNewTenants(async () => {
        const standby = await restorable!.startStandby()
        const since = performance.now()
        await standby.disconnect()
        await sleep(RECEIVER_HELD_MS)
        await load.whileSwitching(since, async () => {
          await restorable!.postgres.crash()
          await standby.promote()
          await shiftWork(standby.url, CLOCK_BEHIND_MS)
          moveDatabase(standby.url)
        })
      })
    },
  },
  {
    ...usual,
    name: 'two-primaries',
    about: 'a standby is promoted while an API and a worker keep working with the previous primary',
    duration_ms: 45_000,
    minutes: 30,
    inflict: promoteSecond,
  },
  {
    ...usual,
    name: 'restore',
    about: 'the database is restored to an earlier second',
    duration_ms: 40_000,
    minutes: 30,
    inflict: (system, random, load) =>
      load.withoutNewTenants(async () => {
        const point = await restorePoint(system, random)
        await sleep(random.between(1000, 25_000))
        await load.whileSwitching(point.since, point.goBack)
      }),
  },
  {
    ...usual,
    name: 'restore-day',
    about:
      'the database is restored to a second that is then 25 hours ago, and an operator releases what waits',
    duration_ms: 40_000,
    minutes: 30,
    inflict: restoreAfterDay,
  },
  {
    ...usual,
    name: 'restore-twice',
    about: 'the database is restored twice, the second time to before the first',
    duration_ms: 50_000,
    minutes: 30,
    inflict: (system, random, load) =>
      load.withoutNewTenants(async () => {
        const earlier = await restorePoint(system, random)
        const between_ms = random.between(1000, 6000)
        await sleep(between_ms)
        const later = await pointInTime(system)
        await sleep(random.between(1000, 10_000))
        await load.whileSwitching(later.since, later.goBack)
        // The feed has more events after the first restore than between the two seconds.
        await sleep(2 * between_ms + random.between(3000, 6000))
        await load.whileSwitching(earlier.since, earlier.goBack)
      }),
  },
  {
    ...usual,
    name: 'restore-volume',
    about: 'the files of PostgreSQL are replaced by an earlier copy: crash recovery, and the same timeline',
    duration_ms: 40_000,
    minutes: 30,
    inflict: ({ restorable }, random, load) =>
      load.withoutNewTenants(async () => {
        const since = performance.now()
        const goBack = await restorable!.copyVolume()
        await sleep(random.between(1000, 25_000))
        await load.whileSwitching(since, goBack)
      }),
  },
]

/** What the processes at the previous primary accept or do after the promotion is lost, so they must do nothing. */
async function promoteSecond(system: System, random: Random, load: Load): Promise<void> {
  const { restorable, apis, workers, moveDatabase } = system
  const previous = restorable!.postgres
  const wire = await startProxy(previous.url)
  const left_behind = [random.pick(apis), random.pick(workers)]
  const restart = async (member: Member, env: Record<string, string>) => {
    await member.kill('SIGTERM')
    await member.start({ env })
  }
  try {
    for (const member of left_behind) await restart(member, { DATABASE_URL: wire.url })
    await load.withoutNewTenants(async () => {
      const standby = await restorable!.startStandby()
      const since = performance.now()
      await load.whileSwitching(since, async () => {
        await standby.disconnect()
        await standby.promote()
        moveDatabase(standby.url)
        // Until they notice the promotion, the processes at the previous primary work as before.
        for (const { name } of left_behind)
          await until(`${name} notices that another server is in use`, async () => {
            const log = await readFile(join(system.folder, 'logs', `${name}.log`), 'utf8')
            return log.lastIndexOf(SUPERSEDED) > log.lastIndexOf(STARTED)
          })
      })
    })
    await sleep(TWO_PRIMARIES_MS)
    await previous.crash()
  } finally {
    for (const member of left_behind) await restart(member, {})
    await wire.close()
  }
}

/** Takes a base backup. Resolves with a point in time soon after it. */
async function restorePoint(system: System, random: Random): Promise<Point> {
  await system.restorable!.backUp()
  await sleep(random.between(0, 3000))
  return await pointInTime(system)
}

/** The present time, to which the last base backup can be restored later. */
async function pointInTime({ sql, restorable }: System): Promise<Point> {
  const since = performance.now()
  const [row] = await sql<{ now: string }[]>`select clock_timestamp()::text as now`
  return { since, goBack: () => restorable!.restoreTo(row!.now) }
}

async function restoreAfterDay(system: System, random: Random, load: Load): Promise<void> {
  await load.withoutNewTenants(async () => {
    const point = await restorePoint(system, random)
    await sleep(random.between(1000, 25_000))
    await withPromptNotifications(system, async () => {
      await load.whileSwitching(
        point.since,
        () => goBackByDay(system, point),
        () => releaseAfterDay(system),
      )
    })
  })
}

/** Goes back to a time which is then a day ago: the processor has forgotten the keys of what happened since. */
async function goBackByDay({ wires, postgres, provider }: System, { goBack }: Point): Promise<void> {
  wires.postgres.refuse(true)
  await goBack()
  await shiftWork(postgres.url, -DAY_MS)
  await provider('stripe').control('POST', '/clock', { advance_ms: DAY_MS })
  wires.postgres.refuse(false)
}

async function releaseAfterDay({ sql, postgres, provider }: System): Promise<void> {
  const countOf = async (column: 'released_at' | 'lists_read_at') =>
    (await sql`select from database_switches where recorded_at is not null and ${sql(column)} is null`).length
  await until('the switch is recorded', async () => (await countOf('released_at')) > 0)
  const args = ['release', '--messages', 'send', '--reason', 'the torture goes on']
  const { code, stderr } = await runCommand('src/commands/recover.ts', args, { DATABASE_URL: postgres.url })
  if (code !== 0) throw new Error(`npm run recover failed: ${stderr}`)
  await until('the lists are read', async () => (await countOf('lists_read_at')) === 0)
  await provider('stripe').control('POST', '/clock', { advance_ms: -DAY_MS })
}

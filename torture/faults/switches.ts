// Faults after which the processes work with another database than before: restores, rolled back volumes, and standbys
// that are promoted.
import { setTimeout as sleep } from 'node:timers/promises'
import { runCommand } from '#test/commands.ts'
import { makeWorkOlder, type RestorablePostgres } from '#test/restorable.ts'
import { until } from '#test/process.ts'
import { startProxy } from '#test/proxy.ts'
import type { Load } from '../load.ts'
import type { Member } from '../member.ts'
import { withPromptNotifications } from '../notifications.ts'
import type { Random } from '../random.ts'
import type { System } from '../system.ts'
import type { Fault } from './fault.ts'

/** How long the primary runs on without its standby. */
const RECEIVER_HELD_MS = 5000
/** How long some processes work with the previous primary. */
const TWO_PRIMARIES_MS = 30_000

/** Longer than the processor keeps idempotency keys. */
const DAY_MS = 25 * 3_600_000

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
    about: 'PostgreSQL crashes, and a standby that lags five seconds behind takes its place',
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
    inflict: async (system, random, load) =>
      await rewind(system, random, load, async ({ backUp, restoreTo }) => {
        await backUp()
        return async () => {
          const [row] = await system.sql<{ now: string }[]>`select clock_timestamp()::text as now`
          return async () => await restoreTo(row!.now)
        }
      }),
  },
  {
    ...usual,
    name: 'restore-volume',
    about: 'the files of PostgreSQL are replaced by an earlier copy: crash recovery, and the same timeline',
    duration_ms: 40_000,
    minutes: 30,
    inflict: async (system, random, load) =>
      await rewind(system, random, load, async ({ copyVolume }) => copyVolume),
  },
]

/** What the processes at the previous primary accept or do after the promotion is lost, so they must do nothing. */
async function promoteSecond(system: System, random: Random, load: Load): Promise<void> {
  const { restorable, apis, workers, clients, moveDatabase } = system
  const previous = restorable!.postgres
  const wire = await startProxy(previous.url)
  const api = random.pick(apis)
  const left_behind = [api, random.pick(workers)]
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
        const client = clients[apis.indexOf(api)]!
        await until('the API at the previous primary refuses requests', async () => {
          const answer = await client.get('/v1/payments?limit=1').catch(() => null)
          return answer?.status === 503
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

/**
 * Makes the database go back. `prepare` resolves with a function that marks a time and resolves with a function that
 * goes back to this time.
 */
async function rewind(
  system: System,
  random: Random,
  load: Load,
  prepare: (restorable: RestorablePostgres) => Promise<() => Promise<() => Promise<void>>>,
): Promise<void> {
  const restorable = system.restorable!
  await load.withoutNewTenants(async () => {
    const mark = await prepare(restorable)
    await sleep(random.between(0, 3000))
    const since = performance.now()
    const goBack = await mark()
    await sleep(random.between(1000, 25_000))
    if (random.next() < 0.5) return await load.whileSwitching(since, goBack)
    await withPromptNotifications(system, async () => {
      await load.whileSwitching(
        since,
        () => goBackByDay(system, goBack),
        () => releaseAfterDay(system),
      )
    })
  })
}

/** Goes back to a time which is then a day ago: the processor has forgotten the keys of what happened since. */
async function goBackByDay(
  { wires, postgres, provider }: System,
  goBack: () => Promise<void>,
): Promise<void> {
  wires.postgres.refuse(true)
  await goBack()
  await makeWorkOlder(postgres.url, DAY_MS)
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

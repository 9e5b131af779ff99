// Postgres: restarted, its sessions ended, its tables locked, its connections silent, cut and slow.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Fault } from './fault.ts'
import { cutAgain, freeze } from './redis.ts'

const usual = { takes_ms: 4500, bar_ms: 10_000 }

export const POSTGRES_FAULTS: Fault[] = [
  {
    ...usual,
    name: 'restart-postgres',
    about: 'Postgres restarts at once, through crash recovery',
    inflict: ({ postgres }) => postgres.restart('immediate'),
  },
  {
    ...usual,
    name: 'end-backends',
    about: 'the sessions of our processes are ended, again and again',
    async inflict({ sql }, random) {
      for (let times = 0; times < 5; times++) {
        await sql`select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'sluice-%'`
        await sleep(random.between(50, 600))
      }
    },
  },
  {
    ...usual,
    name: 'exhaust-pools',
    about: 'a lock that every connection of every pool comes to wait for',
    async inflict({ sql }, random) {
      await sql.begin(async (tx) => {
        await tx`lock table jobs in access exclusive mode`
        await sleep(random.between(2000, 4000))
      })
    },
  },
  {
    ...usual,
    name: 'postgres-half-open',
    about: 'the connections to Postgres stay open and carry nothing',
    takes_ms: 20_000,
    bar_ms: 30_000,
    counts_from: 'beginning',
    inflict: ({ wires }) => freeze(wires.postgres),
  },
  {
    ...usual,
    name: 'postgres-reset',
    about: 'the connections to Postgres are cut, again and again',
    inflict: async ({ wires }, random) => await cutAgain(wires.postgres, random),
  },
  {
    ...usual,
    name: 'postgres-slow',
    about: 'Postgres answers late',
    async inflict({ wires }, random) {
      wires.postgres.delay(random.between(10, 60))
      await sleep(3000)
      wires.postgres.delay(0)
    },
  },
]

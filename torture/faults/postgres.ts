// PostgreSQL faults: restarts, ended sessions, locked tables, and silent, reset and slow connections.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Problem } from '#test/invariants.ts'
import type { System } from '../system.ts'
import type { Fault } from './fault.ts'
import { callsAfterPause, pauseCalls, resumeCalls } from './pause.ts'
import { cutRepeatedly, freeze } from './redis.ts'

const PINNED_MS = 20_000
/** Round-trip time of the slow connection. */
const SLOW_MS = 700
/**
 * Delays a quarter of the commits that write events. The deferred trigger runs at commit. It may sleep only in its
 * first run in a transaction.
 */
const SLOW_COMMITS = `
  create function torture_slow_commit() returns trigger language plpgsql as $$
  begin
    if current_setting('torture.slept', true) is distinct from 'yes' and random() < 0.25 then perform pg_sleep(0.5); end if;
    perform set_config('torture.slept', 'yes', true);
    return null;
  end $$;
  create constraint trigger torture_slow_commit after insert on event_outbox deferrable initially deferred
    for each row execute function torture_slow_commit();`
const usual = { duration_ms: 4500, recovery_limit_ms: 10_000 }

export const POSTGRES_FAULTS: Fault[] = [
  {
    ...usual,
    name: 'restart-postgres',
    about: 'PostgreSQL restarts immediately, with crash recovery',
    inflict: ({ postgres }) => postgres.restart('immediate'),
  },
  {
    ...usual,
    name: 'kill-pooler',
    about: 'kill -9 of PgBouncer, twice (with --pooler)',
    needs_pooler: true,
    async inflict({ pooler }, random) {
      for (let times = 0; times < 2; times++) {
        await pooler!.kill()
        await sleep(random.between(0, 1500))
        await pooler!.start()
        await sleep(random.between(0, 1000))
      }
    },
  },
  {
    ...usual,
    name: 'end-backends',
    about: 'the sessions of our processes are ended repeatedly',
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
    about: 'a table lock that blocks every connection of every pool',
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
    about: 'the connections to PostgreSQL stay open and carry nothing',
    duration_ms: 20_000,
    recovery_limit_ms: 30_000,
    recovery_from: 'beginning',
    inflict: ({ wires }) => freeze(wires.postgres),
  },
  {
    ...usual,
    name: 'postgres-reset',
    about: 'the connections to PostgreSQL are cut repeatedly',
    inflict: async ({ wires }, random) => await cutRepeatedly(wires.postgres, random),
  },
  {
    ...usual,
    name: 'postgres-slow',
    about: 'PostgreSQL answers late',
    async inflict({ wires }, random) {
      wires.postgres.delay(random.between(10, 60))
      await sleep(3000)
      wires.postgres.delay(0)
    },
  },
  {
    ...usual,
    name: 'slow-commits',
    about:
      'a quarter of the transactions with events commit half a second late: no reader of the feed may miss their events',
    async inflict({ sql }) {
      await sql.unsafe(SLOW_COMMITS)
      await sleep(5000)
      await sql`drop function torture_slow_commit cascade`
    },
  },
  {
    ...usual,
    name: 'pinned-snapshot',
    about: 'a session holds its snapshot: no row that is updated or deleted meanwhile can be removed',
    duration_ms: PINNED_MS,
    transparent: true,
    async inflict({ sql }) {
      await sql.begin('isolation level repeatable read', async (tx) => {
        await tx`select from tenants limit 1`
        await sleep(PINNED_MS)
      })
    },
  },
  {
    ...usual,
    name: 'slow-database',
    about: 'each statement takes 700 ms longer: work continues, and a pause takes effect',
    duration_ms: 20_000,
    inflict: slowDown,
  },
]

async function slowDown(system: System): Promise<Problem[]> {
  const { sql, wires } = system
  wires.postgres.delay(SLOW_MS / 2)
  try {
    await sleep(6000)
    const [{ measured_from }] = await sql<
      [{ measured_from: string }]
    >`select clock_timestamp() as measured_from`
    await sleep(6000)
    const [{ finished_jobs }] = await sql<[{ finished_jobs: number }]>`
      select count(*) as finished_jobs from jobs where queue = 'payments' and finished_at > ${measured_from}`
    await pauseCalls(system)
    const paused_ms = Date.now()
    await sleep(4000)
    const late_calls = await callsAfterPause(system, paused_ms)
    return finished_jobs === 0
      ? [...late_calls, { problem: 'no job finished while the database was slow' }]
      : late_calls
  } finally {
    wires.postgres.delay(0)
    await resumeCalls(system)
  }
}

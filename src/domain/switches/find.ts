// Reads switches of the database, and what waits since them.
import { z } from 'zod'
import type { Fragment, Sql, Tx } from '#core/db.ts'
import { SYSTEM_TENANT_ID } from '#core/ids.ts'
import { timestamp } from '#core/time.ts'
import type { ParkedReason } from '../notifications/notification.ts'
import { findFailingLists, failingListSchema } from '../reconciliation/failing-lists.ts'
import { isHeld } from './holds.ts'
import { mayHaveLost } from './losses.ts'
import { awaitsLists, jobAwaitsOptOuts, isReadingOptOuts } from './opt-outs.ts'
import { HOLDS } from './server.ts'

const databaseSwitchSchema = z.object({
  number: z.int(),
  kind: z.enum(['failover', 'restore', 'planned']),
  sign: z.enum(['lineage', 'witness', 'operator']),
  newest_at: timestamp.meta({ description: 'The newest change in the database before the switch.' }),
  witnessed_at: timestamp.nullable().meta({
    description: "When the witness last read the database's clock; null without a witness.",
  }),
  switched_at: timestamp,
  jobs_in_doubt: z.int(),
  lists_read_at: timestamp.nullable().meta({
    description: 'When everything that the providers list had been recovered.',
  }),
  lists_waived_at: timestamp.nullable().meta({
    description: 'When an operator decided that nothing waits for the lists any longer.',
  }),
  lists_waived_by: z.string().nullable(),
  opt_outs_read_at: timestamp.nullable().meta({
    description:
      'When the SMS that were received since the newest change before the switch had been read and applied.',
  }),
  is_reading_opt_outs: z.boolean().meta({
    description: 'Whether a worker still reads these received SMS. Without a provider of SMS, none does.',
  }),
  released_at: timestamp.nullable(),
  released_by: z.string().nullable(),
  messages: z.enum(['send', 'discard']).nullable(),
  acknowledged_at: timestamp.nullable(),
  acknowledged_by: z.string().nullable(),
  audit: z
    .object({ seq: z.int(), hash: z.string() })
    .nullable()
    .meta({ description: 'The last entry of the audit log that the witness had seen.' }),
})
/** A recorded switch of the database. */
export type DatabaseSwitch = z.output<typeof databaseSwitchSchema>

/** The switch with this number; undefined if there is none. */
export async function findSwitch(sql: Sql, number: number): Promise<DatabaseSwitch | undefined> {
  const [row] = await sql<DatabaseSwitch[]>`
    select ${switchColumns(sql)} from database_switches s where s.recorded_at is not null and s.number = ${number}`
  return row
}

/** A switch, and what the audit log lacks since then. */
export const listedSwitchSchema = databaseSwitchSchema
  .extend({
    lost_audit_entries: z.object({ first: z.int(), last: z.int() }).nullable().meta({
      description:
        'The numbers of the entries that a witness had seen and that are lost; null if none is known to be lost.',
    }),
  })
  .meta({ id: 'DatabaseSwitch' })
export type ListedSwitch = z.output<typeof listedSwitchSchema>

/**
 * Switches, newest first. `before`: the number of a switch; returns only earlier ones. `unacknowledged`: returns only
 * those that no operator has acknowledged.
 */
export async function findSwitches(
  sql: Sql,
  { before, unacknowledged = false, limit }: { before?: number; unacknowledged?: boolean; limit: number },
): Promise<ListedSwitch[]> {
  return await sql<ListedSwitch[]>`
    select ${switchColumns(sql)},
      case when (s.witness -> 'audit' ->> 'seq')::bigint > kept.seq
        then jsonb_build_object('first', kept.seq + 1, 'last', s.witness -> 'audit' -> 'seq') end as lost_audit_entries
    from database_switches s cross join lateral (
      select coalesce((
        select e.seq from audit_entries e where e.at < s.switched_at order by e.at desc limit 1), 0) as seq) kept
    where s.recorded_at is not null
      ${before === undefined ? sql`` : sql`and s.number < ${before}`}
      ${unacknowledged ? sql`and s.acknowledged_at is null` : sql``}
    order by s.number desc limit ${limit}`
}

function switchColumns(sql: Sql): Fragment {
  return sql`
    s.number, s.kind, s.sign, s.newest_at, s.witnessed_at, s.switched_at, s.jobs_in_doubt, s.lists_read_at,
    s.lists_waived_at, s.lists_waived_by, s.opt_outs_read_at, ${isReadingOptOuts(sql)} as is_reading_opt_outs,
    s.released_at, s.released_by, s.messages, s.acknowledged_at,
    s.acknowledged_by, s.witness -> 'audit' as audit`
}

const recordingSchema = databaseSwitchSchema.pick({ number: true, sign: true, newest_at: true }).extend({
  since: timestamp,
  jobs_left: z.int().meta({ description: 'The open jobs whose calls do not count as sent yet.' }),
  feeds_left: z.int().meta({ description: 'The feeds that are not restarted yet.' }),
})

export const switchStateSchema = z.object({
  server: z
    .object({ system_identifier: z.string(), timeline: z.int() })
    .meta({ description: 'The server on record.' }),
  is_on_lineage: z.boolean().meta({ description: 'Whether the database runs on the server on record.' }),
  is_sealed: z.boolean(),
  hold: z.enum(HOLDS).nullable().meta({
    description:
      '`payouts`: payouts and refunds wait. `creations`: all jobs that create something at a provider wait. `all`: all jobs wait, except for notifications.',
  }),
  recording: recordingSchema.nullable().meta({
    description:
      'A switch that is not recorded completely: all jobs wait. If an operator has declared it, the command must be run again if it was stopped.',
  }),
  holds_messages: z.boolean().meta({ description: 'Messages that were accepted before the switch wait.' }),
  holds_sms: z.boolean().meta({
    description: 'SMS that were accepted before the switch wait until the received SMS have been read.',
  }),
  unreleased: z.array(z.int()).meta({ description: 'The numbers of the switches that are not released.' }),
  awaiting_lists: z.array(z.int()).meta({
    description:
      'The numbers of the switches since which jobs wait until lists of the providers have been read.',
  }),
  failing_lists: z.array(failingListSchema).meta({ description: 'The lists that cannot be read.' }),
  unanswered_lookups: z.object({ count: z.int(), oldest_at: timestamp }).nullable().meta({
    description:
      'The lookups that no provider has answered. Until then, the lists do not count as read. Null if there are none, or nothing waits for the lists.',
  }),
  lost_since: timestamp.nullable().meta({
    description:
      'Changes from this time until `lost_until` may be lost: the newest change before the last switch that can have lost any. Null without one.',
  }),
  lost_until: timestamp.nullable(),
})
/** The server on record, and what waits. */
export type SwitchState = z.output<typeof switchStateSchema>

export async function findSwitchState(sql: Sql): Promise<SwitchState> {
  const failing_lists = await findFailingLists(sql)
  const recording = await findRecording(sql)
  const [row] = await sql<Omit<SwitchState, 'failing_lists' | 'recording' | 'unanswered_lookups'>[]>`
    select jsonb_build_object('system_identifier', l.system_identifier, 'timeline', l.timeline) as server,
      l.server_started_at = pg_postmaster_start_time() and l.timeline = current_timeline() as is_on_lineage,
      l.seal is not null as is_sealed, l.hold, l.holds_messages_before is not null as holds_messages,
      exists (select from jobs j where j.finished_at is null and ${jobAwaitsOptOuts(sql)}) as holds_sms,
      coalesce((
        select jsonb_agg(number order by number) from database_switches
        where recorded_at is not null and released_at is null), '[]') as unreleased,
      coalesce((
        select jsonb_agg(number order by number) from database_switches s
        where ${awaitsLists(sql)}), '[]') as awaiting_lists,
      s.newest_at as lost_since, s.switched_at as lost_until
    from lineage l left join lateral (
      select s.newest_at, s.switched_at from database_switches s where ${mayHaveLost(sql)}
      order by s.number desc limit 1) s on true`
  const unanswered_lookups = row!.awaiting_lists.length > 0 ? await findUnansweredLookups(sql) : null
  return { ...row!, recording, failing_lists, unanswered_lookups }
}

/** The lookups that no provider has answered: `findReadSwitch` waits for them. Null if there are none. */
async function findUnansweredLookups(sql: Sql): Promise<SwitchState['unanswered_lookups']> {
  const reason = 'no_answer' satisfies ParkedReason
  const [found = null] = await sql<NonNullable<SwitchState['unanswered_lookups']>[]>`
    select count(*)::integer as count, min(n.parked_at) as oldest_at from notifications n
    where n.parked_at is not null and n.reason = ${reason} and n.livemode having count(*) > 0`
  return found
}

/** The switch that is being recorded, and what `record_switch` has not visited yet; null if there is none. */
async function findRecording(sql: Sql): Promise<SwitchState['recording']> {
  const [recording = null] = await sql<NonNullable<SwitchState['recording']>[]>`
    select s.number, s.sign, s.newest_at, s.switched_at as since,
      (select count(*)::integer from jobs j where j.finished_at is null and j.created_at < s.switched_at
        and (j.created_at, j.id) > (s.visited_at, s.visited_job)) as jobs_left,
      (select count(*)::integer from tenants t where t.id <> ${SYSTEM_TENANT_ID} and not exists (
        select from feed_restarts r where r.tenant_id = t.id and r.switch_number = s.number)) as feeds_left
    from database_switches s where s.recorded_at is null`
  return recording
}

export const heldJobsSchema = z.object({ queue: z.string(), jobs: z.int() })
type HeldJobs = z.output<typeof heldJobsSchema>

/** The number of open jobs that wait since a switch, by queue. */
export async function findHeldJobs(sql: Sql): Promise<HeldJobs[]> {
  return await sql<HeldJobs[]>`
    select j.queue, count(*)::integer as jobs from jobs j
    where j.finished_at is null and (${isHeld(sql)} or ${jobAwaitsOptOuts(sql)})
    group by j.queue order by j.queue`
}

/** The time of the newest change in the database. */
export async function findNewestChange(sql: Sql | Tx): Promise<string> {
  const [row] = await sql<{ newest_at: string }[]>`select newest_change('infinity') as newest_at`
  return row!.newest_at
}

/** The maximum number of sessions that are named. */
const MAX_WRITERS = 10
/** Ends the `application_name` of the sessions of commands that may write. */
export const COMMAND_SUFFIX = '-command'

/**
 * Names the other sessions that have written to the tables in a transaction that is still open, and the commands that
 * may write because they began before the database was sealed.
 */
export async function findOpenWriters(sql: Sql): Promise<string[]> {
  const writers = await sql<{ name: string }[]>`
    select distinct case when l.pid is null then 'a prepared transaction'
      else format('an open transaction of %s (pid %s)',
        coalesce(nullif(a.application_name, ''), a.usename, 'a session'), l.pid)
      end as name
    from pg_locks l join pg_class c on c.oid = l.relation left join pg_stat_activity a on a.pid = l.pid
    where l.locktype = 'relation' and l.mode = 'RowExclusiveLock' and l.pid is distinct from pg_backend_pid()
      and l.database = (select oid from pg_database where datname = current_database())
      -- A vacuum has such a lock on indexes.
      and c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'p')
    union
    -- PgBouncer keeps the session of a command that has ended, with its name.
    select format(case a.state
        when 'idle' then 'the command %s, or an idle session of PgBouncer that the command has used (pid %s)'
        else 'the command %s (pid %s)' end, a.application_name, a.pid)
    from pg_stat_activity a
    where a.datname = current_database() and a.application_name like ${`%${COMMAND_SUFFIX}`}
      and a.pid <> pg_backend_pid()
    order by 1 limit ${MAX_WRITERS}`
  return writers.map(({ name }) => name)
}

/** Whether the database runs on the server on record, also if no process has checked it since it was started. */
export async function isOnRecord(sql: Sql): Promise<boolean> {
  const [row] = await sql<{ is_on_record: boolean }[]>`
    select (l.system_identifier, l.timeline::text) = (f ->> 'system_identifier', f ->> 'timeline') as is_on_record
    from lineage l cross join server_facts() f`
  return row!.is_on_record
}

/** Whether the database is sealed. */
export async function isSealed(sql: Sql): Promise<boolean> {
  return (await sql`select from lineage where seal is not null`).length > 0
}

/** The number of recorded switches of each kind. */
export async function countSwitches(sql: Sql): Promise<{ kind: DatabaseSwitch['kind']; count: number }[]> {
  return await sql<{ kind: DatabaseSwitch['kind']; count: number }[]>`
    select kinds.kind, count(s.number)::integer as count
    from unnest(${databaseSwitchSchema.shape.kind.options}::text[]) kinds(kind)
    left join database_switches s on s.kind = kinds.kind and s.recorded_at is not null
    group by kinds.kind`
}

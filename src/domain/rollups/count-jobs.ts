// Counts jobs of live mode for the roll-ups: those that finished since the last count, and at intervals all open jobs.
import { z } from 'zod'
import type { Sql, Tx } from '#core/db.ts'
import { LOWEST_ID } from '#core/ids.ts'
import { renewRun, type Run } from '../jobs/recurring.ts'
import { stageOfOpenJob } from '../jobs/states.ts'
import { isLiveJob } from '../modes.ts'
import { claimableSince } from '../switches/holds.ts'
import { ZERO_OPEN, STAGES, type Counter, type OpenFigures } from './columns.ts'
import { BOUNDS_LITERAL } from './histograms.ts'
import { addToRollups, writeRollups, type RollupRows } from './rows.ts'
import { awaitedTimeSchema, isSettled, readTransactions } from './settled-time.ts'
import { addingTenants, closeTenantHours } from './tenant-rows.ts'

/** Samples of open jobs take at most a hundredth of the database's time. */
const SAMPLE_SHARE = 100

const numbers = z.record(z.string(), z.number())

/** The position of the count: jobs that finished before (`after`, `after_id`) are counted. */
export const countPositionSchema = z.object({
  after: z.string(),
  after_id: z.string(),
  /** The time up to which the next step counts, once all earlier transactions are visible. */
  awaited: awaitedTimeSchema.nullable(),
  /** By queue and name: the open jobs at the last sample, and the jobs finished since. */
  open: numbers.nullable(),
  finished: numbers,
  /** The time of the last sample of open and arrived jobs. */
  sampled: z.string().nullable().default(null),
  /** The earliest time of the next sample. */
  sample_at_ms: z.number(),
})
export type CountPosition = z.output<typeof countPositionSchema>

/**
 * The position of the first count, an hour back, so that charts show data at once. If no tenant existed at that time,
 * there were no open jobs; otherwise their number is unknown.
 */
export async function beginCounting(sql: Sql): Promise<CountPosition> {
  const { at } = await readTransactions(sql)
  const [from] = await sql<{ after: string; is_new: boolean }[]>`
    select b.after, coalesce((select created_at from tenants order by id limit 1) >= b.after, true) as is_new
    from (select ${at}::timestamptz - interval '1 hour' as after) b`
  const { after, is_new } = from!
  return {
    after,
    after_id: LOWEST_ID,
    awaited: null,
    open: is_new ? {} : null,
    finished: {},
    sampled: null,
    sample_at_ms: 0,
  }
}

/**
 * One step: counts up to `limit` finished jobs, oldest first, with the position in one transaction. `more`: more
 * jobs are ready to be counted. `waits`: earlier transactions may still finish a job; retry later. Undefined if
 * the lease of the run was lost: nothing was written.
 */
export async function countJobsForRollups(
  sql: Sql,
  run: Run,
  position: CountPosition,
  { queues, limit }: { queues: readonly string[]; limit: number },
): Promise<{ position: CountPosition; more: boolean; waits: boolean } | undefined> {
  const awaited = position.awaited ?? (await readTransactions(sql))
  if (!(await isSettled(sql, awaited)))
    return { position: { ...position, awaited }, more: false, waits: true }
  return await sql.begin(async (tx) => {
    if (!(await renewRun(tx, run, run.position))) return undefined
    const rows: RollupRows = new Map()
    const batch = await findFinished(tx, position, awaited.at, limit)
    const finished = { ...position.finished }
    for (const { minute, queue, name, count, ...counted } of batch.groups) {
      addToRollups(rows, minute, { queue, name }, { ...counted, count })
      finished[keyOf({ queue, name })] = (finished[keyOf({ queue, name })] ?? 0) + count
    }
    await closeTenantHours(tx, position.after, batch.reached?.after ?? awaited.at)
    let next: CountPosition = { ...position, awaited, finished, ...batch.reached }
    if (batch.reached === null) {
      next = { ...next, after: awaited.at, after_id: LOWEST_ID, awaited: null }
      if (Date.parse(awaited.at) >= position.sample_at_ms) next = await sample(tx, next, queues, rows)
    }
    await writeRollups(tx, rows)
    await renewRun(tx, run, next)
    return { position: next, more: batch.reached !== null, waits: false }
  })
}

type FinishedGroup = Record<Exclude<Counter, 'arrived'>, number> & {
  minute: string
  queue: string
  name: string
  wait: number | null
  run: number | null
  count: number
}

/**
 * The next finished jobs, grouped by minute, name, outcome and bucket. Also adds these jobs to the roll-ups of their
 * tenants. `reached`: the last job; null if no more follow before `to`.
 */
async function findFinished(
  tx: Tx,
  { after, after_id }: CountPosition,
  to: string,
  limit: number,
): Promise<{ groups: FinishedGroup[]; reached: { after: string; after_id: string } | null }> {
  const columns = tx`tenant_id, id, queue, name, state, outcome, attempt, run_at, started_at, finished_at`
  const next = tx`
    where (finished_at, id) > (${after}, ${after_id}) and finished_at < ${to} order by finished_at, id limit ${limit}`
  type Scanned = { scanned: number; last_at: string; last_id: string }
  const rows = await tx<((FinishedGroup | { [column in keyof FinishedGroup]: null }) & Scanned)[]>`
    with scanned as materialized (
      -- After a long interruption, some jobs have moved to the history, so both tables are read.
      select * from (
        (select ${columns} from jobs ${next})
        union all
        (select ${columns} from job_history ${next})
      ) j
      order by finished_at, id limit ${limit}
    ), picked as materialized (
      select *, extract(epoch from finished_at - started_at)::float8 * 1000 as run_ms from scanned j
      where ${isLiveJob(tx, 'j', { reads_many: true })}
    ), ${addingTenants(tx)}, scale as materialized (
      -- The bounds are parsed once: parsing them for each row would take five times as long as everything else.
      select ${BOUNDS_LITERAL}::text::float8[] as bounds
    ), counted as (
      select date_trunc('minute', finished_at) as minute, queue, name, state, outcome = 'declined' as is_declined,
        case when started_at is not null and isfinite(run_at)
          then width_bucket(extract(epoch from started_at - run_at)::float8 * 1000, bounds) end as wait,
        width_bucket(run_ms, bounds) as run, count(*) as count, sum(attempt)::bigint as attempts
      from picked cross join scale group by 1, 2, 3, 4, 5, 6, 7
    )
    select minute, queue, name, case when state = 'succeeded' then count else 0 end as succeeded,
      case when state = 'failed' then count else 0 end as failed,
      case when state = 'discarded' then count else 0 end as discarded,
      case when is_declined then count else 0 end as declined, attempts, wait, run, count,
      (select count(*) from scanned) as scanned, last.finished_at as last_at, last.id as last_id
    from (select finished_at, id from scanned order by finished_at desc, id desc limit 1) last
    left join counted on true`
  const [first] = rows
  const groups = rows.flatMap(({ scanned: _scanned, last_at: _at, last_id: _id, ...group }) =>
    group.minute === null ? [] : [group],
  )
  if (first === undefined || first.scanned < limit) return { groups, reached: null }
  return { groups, reached: { after: first.last_at, after_id: first.last_id } }
}

/**
 * Samples open jobs, and derives the arrived ones: the increase since the last sample plus the jobs finished
 * since. Both samples are as of the time up to which finished jobs are counted, so no job is missed or counted
 * twice.
 */
async function sample(
  tx: Tx,
  position: CountPosition,
  queues: readonly string[],
  rows: RollupRows,
): Promise<CountPosition> {
  const began_ms = performance.now()
  const at = position.after
  const found = await tx<(OpenFigures & { queue: string; name: string; open_then: number })[]>`
    select queue, name, count(*) filter (where stage = 'due') as due, count(*) filter (where stage = 'later') as later,
      count(*) filter (where stage = 'running') as running, count(*) filter (where stage = 'unknown') as unknown,
      count(*) filter (where stage = 'parked') as parked, count(*) filter (where refused) as refused,
      count(*) filter (where in_doubt) as in_doubt,
      greatest(extract(epoch from now() - min(since) filter (where stage = 'due')), 0)::integer as oldest_due_s,
      count(*) filter (where created_at < ${at}) as open_then
    from (
      select queue, name, ${claimableSince(tx)} as since, created_at, refused_since is not null as refused, in_doubt,
        ${stageOfOpenJob(tx)} as stage
      from jobs j where finished_at is null and ${isLiveJob(tx, 'j', { reads_many: true })}
      union all
      select queue, name, null, created_at, false, false, 'finished' from jobs where finished_at >= ${at}
        and ${isLiveJob(tx, 'jobs', { reads_many: true })}
    ) j
    group by queue, name`
  const minute = `${at.slice(0, 16)}:00.000000Z`
  for (const queue of queues) addToRollups(rows, minute, { queue, name: '' }, { open: ZERO_OPEN })
  const open: Record<string, number> = {}
  const by_key = new Map(found.map((each) => [keyOf(each), each]))
  // Names without open jobs are written as zero.
  for (const key of new Set([
    ...by_key.keys(),
    ...Object.keys(position.open ?? {}),
    ...Object.keys(position.finished),
  ])) {
    const none = { ...queueAndName(key), ...ZERO_OPEN, open_then: 0 }
    const { queue, name, open_then, ...figures } = by_key.get(key) ?? none
    const arrived =
      position.open === null ? 0 : open_then - (position.open[key] ?? 0) + (position.finished[key] ?? 0)
    addToRollups(rows, minute, { queue, name }, { open: figures })
    for (const part of spreadOverMinutes(position.sampled ?? at, at, arrived))
      addToRollups(rows, part.minute, { queue, name }, { arrived: part.count })
    if (open_then > 0 || STAGES.some((stage) => figures[stage] > 0)) open[key] = open_then
  }
  const sample_at_ms = Date.parse(at) + SAMPLE_SHARE * (performance.now() - began_ms)
  return { ...position, open, finished: {}, sampled: at, sample_at_ms }
}

/**
 * The arrival times between two samples are unknown: each minute gets a share in proportion to its length. After more
 * than an hour without samples, all arrivals count in the last hour.
 */
function spreadOverMinutes(from: string, to: string, count: number): { minute: string; count: number }[] {
  const end_ms = Date.parse(to)
  const begin_ms = Math.max(Date.parse(from), end_ms - 3_600_000)
  const parts: { minute: string; count: number }[] = []
  let distributed = 0
  for (let ms = begin_ms; ms <= end_ms && distributed !== count;) {
    const minute_ms = Math.floor(ms / 60_000) * 60_000
    const next_ms = Math.min(minute_ms + 60_000, end_ms)
    const reached =
      next_ms === end_ms ? count : Math.round((count * (next_ms - begin_ms)) / (end_ms - begin_ms))
    if (reached !== distributed)
      parts.push({
        minute: new Date(minute_ms).toISOString().replace('Z', '000Z'),
        count: reached - distributed,
      })
    distributed = reached
    ms = minute_ms + 60_000
  }
  return parts
}

function keyOf({ queue, name }: { queue: string; name: string }): string {
  return `${queue} ${name}`
}

function queueAndName(key: string): { queue: string; name: string } {
  const space = key.indexOf(' ')
  return { queue: key.slice(0, space), name: key.slice(space + 1) }
}

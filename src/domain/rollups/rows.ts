// The rows of the job roll-ups: collected by minute and hour, name and queue, and added to the stored rows.
import type { Tx } from '#core/db.ts'
import {
  COUNTERS,
  ZERO_COUNTERS,
  OPEN_COLUMNS,
  OPEN_COUNTS,
  type Counter,
  type OpenFigures,
} from './columns.ts'
import { addCounts } from './histograms.ts'

export type CountedJobs = Partial<Record<Counter, number>> & {
  /** The bucket in which the waiting times of these jobs are counted. */
  wait?: number | null
  run?: number | null
  /** The number to add to the buckets. */
  count?: number
  open?: OpenFigures
}

type RollupRow = Record<Counter, number> & {
  resolution: number
  at: string
  queue: string
  name: string
  wait: number[]
  run: number[]
  open: OpenFigures | null
}

/** The counts of one step, collected so that each row is written once. */
export type RollupRows = Map<string, RollupRow>

/**
 * Adds counts to the minute and its hour, for the job name and for the total of the queue. `name` '': only for the
 * queue.
 */
export function addToRollups(
  rows: RollupRows,
  minute: string,
  { queue, name }: { queue: string; name: string },
  counted: CountedJobs,
): void {
  const hour = `${minute.slice(0, 13)}:00:00.000000Z`
  for (const each of new Set([name, ''])) {
    addTo(rows, { resolution: 60, at: minute, queue, name: each }, counted)
    addTo(rows, { resolution: 3600, at: hour, queue, name: each }, counted)
  }
}

/** Adds all rows to the tables. */
export async function writeRollups(tx: Tx, rolled: RollupRows): Promise<void> {
  const rows = Array.from(rolled.values(), ({ open, ...row }) => ({
    ...row,
    ...open,
    sampled: open !== null,
  }))
  if (rows.length === 0) return
  const numbers = [...COUNTERS, ...OPEN_COLUMNS]
  const defined = numbers.map((name) => tx`${tx(name)} integer,`)
  const counters = COUNTERS.map((name) => tx`${tx(name)} = r.${tx(name)} + excluded.${tx(name)},`)
  const stages = OPEN_COLUMNS.map(
    (name) => tx`
      ${tx(name)} = case when excluded.sampled_at is null then r.${tx(name)}
        when r.resolution = 60 then excluded.${tx(name)} else greatest(r.${tx(name)}, excluded.${tx(name)}) end,`,
  )
  await tx`
    insert into job_rollups as r (resolution, at, queue, name, ${tx(numbers)}, wait, run, sampled_at)
    select resolution, at, queue, name, ${tx(numbers)}, wait, run, case when sampled then now() end
    from jsonb_to_recordset(${tx.json(rows)}) as c(resolution smallint, at timestamptz, queue text, name text,
      ${defined} wait integer[], run integer[], sampled boolean)
    order by resolution, queue, name, at
    on conflict (resolution, queue, name, at) do update set
      ${counters} ${stages}
      wait = (
        select coalesce(array_agg(coalesce(stored, 0) + coalesce(added, 0) order by nth), '{}')
        from unnest(r.wait, excluded.wait) with ordinality as counts(stored, added, nth)),
      run = (
        select coalesce(array_agg(coalesce(stored, 0) + coalesce(added, 0) order by nth), '{}')
        from unnest(r.run, excluded.run) with ordinality as counts(stored, added, nth)),
      sampled_at = coalesce(excluded.sampled_at, r.sampled_at)`
}

function addTo(
  rows: RollupRows,
  of: Pick<RollupRow, 'resolution' | 'at' | 'queue' | 'name'>,
  counted: CountedJobs,
): void {
  const key = `${of.resolution} ${of.at} ${of.queue} ${of.name}`
  const row = rows.get(key) ?? { ...of, ...ZERO_COUNTERS, wait: [], run: [], open: null }
  rows.set(key, row)
  for (const counter of COUNTERS) row[counter] += counted[counter] ?? 0
  for (const measure of ['wait', 'run'] as const) {
    const bucket = counted[measure] ?? null
    if (bucket !== null) addCounts(row[measure], [...Array<number>(bucket).fill(0), counted.count ?? 0])
  }
  if (counted.open !== undefined) row.open = sumOf(row.open, counted.open)
}

function sumOf(some: OpenFigures | null, more: OpenFigures): OpenFigures {
  if (some === null) return { ...more }
  const sum = { ...some, oldest_due_s: Math.max(some.oldest_due_s, more.oldest_due_s) }
  for (const stage of OPEN_COUNTS) sum[stage] += more[stage]
  return sum
}

// The rows of the job roll-ups: collected for minutes and hours, names and whole queues, and added to what is there.
import type { Tx } from '#core/db.ts'
import { addCounts } from './histograms.ts'

const COUNTERS = ['succeeded', 'failed', 'discarded', 'declined', 'attempts', 'arrived'] as const
const OPEN_STAGES = ['due', 'later', 'running', 'unknown', 'parked', 'refused', 'in_doubt'] as const

/** Open jobs, each number of a stage; how long the oldest has been due. */
export type OpenFigures = Record<(typeof OPEN_STAGES)[number] | 'oldest_due_s', number>

export type CountedJobs = Partial<Record<(typeof COUNTERS)[number], number>> & {
  /** The bucket in which they are counted. */
  wait?: number | null
  run?: number | null
  /** How many the bucket gets. */
  count?: number
  open?: OpenFigures
}

type RollupRow = Record<(typeof COUNTERS)[number], number> & {
  resolution: number
  at: string
  queue: string
  name: string
  wait: number[]
  run: number[]
  open: OpenFigures | null
}

/** What one step counts, collected so that each row is written once. */
export type RollupRows = Map<string, RollupRow>

/** Adds numbers of a minute to it and to its hour, and to its queue as a whole; `name` '': to the queue only. */
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

/** Adds all of it to the tables; nothing when there is nothing. */
export async function writeRollups(tx: Tx, rolled: RollupRows): Promise<void> {
  const rows = Array.from(rolled.values(), ({ open, ...row }) => ({
    ...row,
    ...open,
    sampled: open !== null,
  }))
  if (rows.length === 0) return
  const counters = COUNTERS.map((name) => tx`${tx(name)} = r.${tx(name)} + excluded.${tx(name)},`)
  const stages = [...OPEN_STAGES, 'oldest_due_s'].map(
    (name) => tx`
      ${tx(name)} = case when excluded.sampled_at is null then r.${tx(name)}
        when r.resolution = 60 then excluded.${tx(name)} else greatest(r.${tx(name)}, excluded.${tx(name)}) end,`,
  )
  await tx`
    insert into job_rollups as r (resolution, at, queue, name, succeeded, failed, discarded, declined, attempts,
      arrived, wait, run, due, later, running, unknown, parked, refused, in_doubt, oldest_due_s, sampled_at)
    select resolution, at, queue, name, succeeded, failed, discarded, declined, attempts, arrived,
      wait, run, due, later, running, unknown, parked, refused, in_doubt, oldest_due_s, case when sampled then now() end
    from jsonb_to_recordset(${tx.json(rows)}) as c(resolution smallint, at timestamptz, queue text, name text,
      succeeded integer, failed integer, discarded integer, declined integer, attempts integer, arrived integer,
      wait integer[], run integer[], due integer, later integer, running integer, unknown integer, parked integer,
      refused integer, in_doubt integer, oldest_due_s integer, sampled boolean)
    order by resolution, queue, name, at
    on conflict (resolution, queue, name, at) do update set
      ${counters} ${stages}
      wait = (
        select coalesce(array_agg(coalesce(known, 0) + coalesce(more, 0) order by nth), '{}')
        from unnest(r.wait, excluded.wait) with ordinality as both_of(known, more, nth)),
      run = (
        select coalesce(array_agg(coalesce(known, 0) + coalesce(more, 0) order by nth), '{}')
        from unnest(r.run, excluded.run) with ordinality as both_of(known, more, nth)),
      sampled_at = coalesce(excluded.sampled_at, r.sampled_at)`
}

function addTo(
  rows: RollupRows,
  of: Pick<RollupRow, 'resolution' | 'at' | 'queue' | 'name'>,
  counted: CountedJobs,
): void {
  const key = `${of.resolution} ${of.at} ${of.queue} ${of.name}`
  const none = { succeeded: 0, failed: 0, discarded: 0, declined: 0, attempts: 0, arrived: 0 }
  const row = rows.get(key) ?? { ...of, ...none, wait: [], run: [], open: null }
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
  for (const stage of OPEN_STAGES) sum[stage] += more[stage]
  return sum
}

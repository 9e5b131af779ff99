// Searches jobs for operators, in pages. The work for a page is bounded, however many jobs exist.
import { z } from 'zod'
import { QUEUES } from '#core/config/queues.ts'
import { AppError } from '#core/errors.ts'
import { HIGHEST_ID, LOWEST_ID } from '#core/ids.ts'
import type { Fragment, Sql, Tx } from '#core/db.ts'
import { dateTime, timestamp } from '#core/time.ts'
import { jobColumns, jobErrorMessage, listedColumns } from './columns.ts'
import { listedJobSchema, resourceOfJob, type ListedJob } from './find.ts'
import {
  JOB_FILTERS,
  matchesConditions,
  rareState,
  sectionsOf,
  sourcesOf,
  type JobConditions,
  type JobSection,
  type JobSource,
} from './matching.ts'
import { findTenantId } from '../tenants.ts'
import { findNamedJobs, type NamedJobs } from './named.ts'

/** The maximum number of jobs that a page reads from each table, matching or not. */
const MAX_SCANNED = 10_000
/** The same limit for a count, which runs once before an act. */
const MAX_COUNT_SCAN = 300_000
/** The maximum number of jobs that are counted. */
const MAX_COUNTED = 10_000
const TIMEOUT_MS = 3_000
/** A job that moves to the history meanwhile is found once. */
const ONE_SNAPSHOT = 'isolation level repeatable read read only'
/**
 * The maximum number of unknown or retrying jobs that are sorted. If there are more, a scan of the open jobs finds
 * enough of them for a page.
 */
const MAX_SORTED = 5_000

/**
 * `tenant`: its name for operators (see `tenantName`), or its id. Without a tenant, a row or a text, only jobs of live
 * mode are found.
 * `search`: see `findNamedJobs`; a text that names nothing is searched in errors and request ids.
 */
export const jobFiltersSchema = z.strictObject({
  state: z.enum(JOB_FILTERS).default('open'),
  queue: z.enum(QUEUES).optional(),
  name: z.string().min(1).max(100).optional(),
  tenant: z.string().min(1).max(100).optional(),
  resource_id: z.uuid().optional(),
  search: z.string().trim().min(1).max(255).optional(),
  created_from: dateTime.optional(),
  created_to: dateTime.optional(),
  finished_from: dateTime.optional(),
  finished_to: dateTime.optional(),
})
export type JobSearch = z.input<typeof jobFiltersSchema>

/**
 * `after` and `before`: the `next` and `previous` of another page. `scan_limit`: the maximum number of jobs
 * read from a table; `Infinity` means all, without a timeout.
 */
export type JobPageRequest = { limit: number; after?: string; before?: string; scan_limit?: number }

/**
 * A page of jobs: open ones, newest first, then finished ones, last finished first. `next` and `previous` are
 * null at the ends. `scanned_until`: the page is not full because the scan limit was reached at that time;
 * `next` (or `previous`) continues there.
 */
export const jobPageSchema = z.object({
  items: z.array(listedJobSchema),
  next: z.string().nullable(),
  previous: z.string().nullable(),
  scanned_until: timestamp.nullable(),
})
export type JobPage = z.output<typeof jobPageSchema>

type JobPosition = { section: JobSection; at: string; id: string }
type FoundJob = ListedJob & { at: string }
type PreparedSearch = {
  conditions: JobConditions
  named: NamedJobs | undefined
  text: string | undefined
  is_sortable: boolean
}

/** Throws `invalid_request` for an invalid cursor, and SQLSTATE 57014 after three seconds. */
export async function searchJobs(
  sql: Sql,
  search: JobSearch,
  { limit, after, before, scan_limit = MAX_SCANNED }: JobPageRequest,
): Promise<JobPage> {
  return await sql.begin(ONE_SNAPSHOT, async (tx) => {
    if (scan_limit !== Infinity) await limitTime(tx)
    const prepared = await prepare(tx, search)
    if (prepared === undefined) return { items: [], next: null, previous: null, scanned_until: null }
    const backwards = before !== undefined
    const from = positionOf(before ?? after)
    const sections = sectionsOf(prepared.conditions)
    const ordered = backwards ? sections.toReversed() : sections
    const found: (FoundJob & JobPosition)[] = []
    let bound: JobPosition | undefined
    for (const section of ordered.slice(
      from === undefined ? 0 : Math.max(0, ordered.indexOf(from.section)),
    )) {
      const scan = { section, from: from?.section === section ? from : undefined, backwards, scan_limit }
      const part = await readSection(tx, prepared, { ...scan, limit: limit + 1 - found.length })
      found.push(...part.jobs.map((job) => ({ ...job, section })))
      bound = part.bound
      if (bound !== undefined || found.length > limit) break
    }
    const more = found.length > limit
    const jobs = backwards ? found.slice(0, limit).toReversed() : found.slice(0, limit)
    // The opposite page always exists: it has at least the job of the cursor. If this page has no jobs, the opposite
    // page begins at the position `edge`, next to the cursor.
    const edge = from && (bound ?? { ...from, id: backwards ? HIGHEST_ID : LOWEST_ID })
    const [first, last] = [jobs[0] ?? edge, jobs.at(-1) ?? edge]
    const onwards = more ? cursorOf(backwards ? first : last) : cursorOf(bound)
    const back = from === undefined ? null : cursorOf(backwards ? last : first)
    return {
      items: jobs.map(({ at: _at, section: _section, ...job }) => job),
      next: backwards ? back : onwards,
      previous: backwards ? onwards : back,
      scanned_until: more ? null : (bound?.at ?? null),
    }
  })
}

/**
 * Counts the matching jobs up to `max_count`. `more`: there may be more matching jobs. `for_act`: counts only jobs
 * that an act can change, none of the history.
 */
export async function countJobs(
  sql: Sql,
  search: JobSearch,
  { max_count = MAX_COUNTED, for_act = false }: { max_count?: number; for_act?: boolean } = {},
): Promise<{ count: number; more: boolean }> {
  return await sql.begin(ONE_SNAPSHOT, async (tx) => {
    await limitTime(tx)
    const prepared = await prepare(tx, search)
    if (prepared === undefined) return { count: 0, more: false }
    let count = 0
    let more = false
    for (const section of sectionsOf(prepared.conditions))
      for (const { inner, outer, table } of scansOf(tx, prepared, section)) {
        if (for_act && table === 'job_history') continue
        const [row] = await tx<{ count: number; read: number }[]>`
          select count(*) filter (where true ${outer}) as count, count(*) as read
          from (${inner} limit ${MAX_COUNT_SCAN}) j`
        count += row!.count
        more ||= row!.read === MAX_COUNT_SCAN
      }
    return { count: Math.min(count, max_count), more: more || count > max_count }
  })
}

async function limitTime(tx: Tx): Promise<void> {
  await tx`select set_config('statement_timeout', ${String(TIMEOUT_MS)}, true)`
}

async function prepare(sql: Tx, search: JobSearch): Promise<PreparedSearch | undefined> {
  const { tenant, search: text, ...conditions } = jobFiltersSchema.parse(search)
  const tenant_id = tenant === undefined ? undefined : await findTenantId(sql, tenant)
  if (tenant !== undefined && tenant_id === undefined) return undefined
  const named = await findNamedJobs(sql, { text, resource_id: conditions.resource_id, tenant_id })
  const rare = rareState(sql, conditions.state)
  const [found] =
    rare === undefined
      ? []
      : await sql<{ count: number }[]>`
          select count(*) from (select from jobs j where j.finished_at is null ${rare} limit ${MAX_SORTED + 1}) j`
  return {
    conditions: { ...conditions, ...(tenant_id !== undefined && { tenant_id }) },
    named,
    text: named === undefined ? text : undefined,
    is_sortable: (found?.count ?? 0) <= MAX_SORTED,
  }
}

type SectionScan = {
  section: JobSection
  from: JobPosition | undefined
  backwards: boolean
  scan_limit: number
  limit: number
}

/** The next jobs of a section in order. `bound`: the position at which the scan limit was reached. */
async function readSection(
  sql: Tx,
  prepared: PreparedSearch,
  { section, from, backwards, scan_limit, limit }: SectionScan,
): Promise<{ jobs: FoundJob[]; bound: JobPosition | undefined }> {
  const order = backwards ? sql`order by at, id` : sql`order by at desc, id desc`
  const max_rows = scan_limit === Infinity ? null : scan_limit
  // If the page begins at a cursor, the scans begin there too: no jobs in front of the cursor are read.
  const scans = scansOf(sql, prepared, section, from && { ...from, backwards })
  const found: FoundJob[] = []
  let bound: JobPosition | undefined
  for (const { inner, outer, key } of scans) {
    const read = sql`${inner} ${backwards ? sql`order by ${key}, j.id` : sql`order by ${key} desc, j.id desc`}`
    const rows = await sql<Omit<FoundJob, 'resource'>[]>`
      select ${listedColumns(sql)}, j.at
      from (select * from (${read} limit ${max_rows}) j where true ${outer} ${order} limit ${limit}) j
      left join tenants t on t.id = j.tenant_id ${order}`
    found.push(...rows.map((row) => ({ ...row, resource: resourceOfJob(row.name) })))
    if (rows.length === limit || max_rows === null) continue
    const [last] = await sql<{ at: string; id: string }[]>`
      select at, id from (${read} limit ${max_rows}) j offset ${max_rows - 1}`
    if (last === undefined) continue
    const position = { section, ...last }
    if (bound === undefined || comesBefore(position, bound) === backwards) bound = position
  }
  found.sort((a, b) => (comesBefore(a, b) === backwards ? -1 : 1))
  const end = bound
  const jobs =
    end === undefined
      ? found
      : found.filter((job) => comesBefore(end, job) !== backwards || job.id === end.id)
  return { jobs: jobs.slice(0, limit), bound: jobs.length >= limit ? undefined : bound }
}

/**
 * For each table of a section: the rows to read in the order of `key` (`inner`), and the filter on them
 * (`outer`).
 */
function scansOf(
  sql: Tx,
  { conditions, named, text, is_sortable }: PreparedSearch,
  section: JobSection,
  from?: JobPosition & { backwards: boolean },
): { inner: Fragment; outer: Fragment; key: Fragment; table: JobSource['table'] }[] {
  const reported =
    text === undefined
      ? sql``
      : sql`and (j.request_id = ${text} or j.provider_reference = ${text}
          or position(lower(${text}) in lower(${jobErrorMessage(sql, 'j.last_error')})) > 0)`
  const has_text = named !== undefined || text !== undefined
  return sourcesOf(sql, section, conditions, { is_sortable }).map(({ table, key: column, base }) => {
    const key = sql(`j.${column}`)
    const onwards =
      from === undefined
        ? sql``
        : from.backwards
          ? sql`and ${key} >= ${from.at} and (${key}, j.id) > (${from.at}, ${from.id})`
          : sql`and ${key} <= ${from.at} and (${key}, j.id) < (${from.at}, ${from.id})`
    // The named jobs are few and found first: the offset keeps the plan from scanning all jobs.
    const rows =
      named === undefined
        ? sql`${sql(table)} j`
        : sql`(select ${jobColumns(sql)} from ${sql(table)} j where ${named(sql)} offset 0) j`
    return {
      inner: sql`select ${jobColumns(sql)}, ${key} as at from ${rows} where ${base} ${onwards}`,
      outer: sql`${matchesConditions(sql, conditions, { has_text })} ${reported}`,
      key: sql`${key}`,
      table,
    }
  })
}

function comesBefore(a: { at: string; id: string }, b: { at: string; id: string }): boolean {
  return a.at === b.at ? a.id < b.id : a.at < b.at
}

const CURSOR = /^(open|finished)_(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z)_([0-9a-f-]{36})$/

function cursorOf(position: JobPosition | undefined): string | null {
  return position === undefined ? null : `${position.section}_${position.at}_${position.id}`
}

function positionOf(cursor: string | undefined): JobPosition | undefined {
  if (cursor === undefined) return undefined
  const [, section, at, id] = CURSOR.exec(cursor) ?? []
  if ((section !== 'open' && section !== 'finished') || at === undefined || !z.uuid().safeParse(id).success)
    throw new AppError('invalid_request', {
      param: 'after',
      message: 'This is not a valid cursor of the list of jobs.',
    })
  return { section, at, id: id! }
}

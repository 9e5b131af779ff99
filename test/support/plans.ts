// Generic plans of statements on tables with the statistics of another state, and what is wrong with a plan.
import type postgres from 'postgres'
import type { Sql } from '#core/db.ts'
import type { SentStatement } from './statement-tap.ts'

/** Tables with at most one row per tenant or per switch of the database. */
export const SMALL_TABLES = new Set([
  'installation',
  'lineage',
  'database_switches',
  'database_heartbeat',
  'pauses',
  'recurring_work',
  'test_clocks',
  'event_sequences',
  'provider_outages',
  'operation_outages',
])

/** Other tables whose rows are deleted after minutes. */
const SHORT_LIVED = new Set(['user_challenges', 'sign_in_failures'])

/** Indexes that a statement may read in full, each with the reason. */
const FULL_SCANS: Record<string, string> = {
  operator_acts_open: 'the acts of operators that are not carried out yet',
  sandbox_acts_open: 'the acts of people in sandboxes that are not carried out yet',
  proposals_confirmed: 'the confirmed proposals that are not carried out yet',
  webhook_recoveries_open: 'the recoveries in progress, of which an endpoint has one',
  webhook_recoveries_of_endpoint: 'a statement of a minute completes recoveries; an endpoint has few',
  webhook_recoveries_pkey: 'a statement of a minute completes recoveries; an endpoint has few',
  webhook_endpoints_unnotified: 'the disabled endpoints whose owner is not notified yet',
  message_limits_pkey: 'read for each disabled endpoint whose owner is not notified yet',
  unsequenced_events_of_subject: 'ends at the first event',
  webhook_due_at: 'ends at the first delivery',
  webhook_deliveries_default_pkey: 'the default partition is empty',
  ai_tasks_open: 'the AI tasks in progress',
}

type Statistics = {
  rows: number
  /** The rows in an index with a condition. Default: all. */
  partial_rows?: number
  /** The fraction of nulls in each column that can be null. */
  nulls: number
  /** The number of distinct values of a column; -1: as many as rows. */
  distinct: (column: { name: string; type: string }) => number
}

const MILLIONS = 50_000_000
const FEW_VALUES =
  /^(state|status|queue|name|kind|type|provider|processor|operation|outcome|reason|currency|channel|method)$/

function usualDistinct({ name, type }: { name: string; type: string }): number {
  if (type === 'boolean') return 2
  if (FEW_VALUES.test(name)) return 10
  return /^(tenant|endpoint)_id$/.test(name) ? 1_000 : -1
}

/** Statistics with which a plan must not scan. Null: those of a table that was never analyzed. */
export const STATISTICS: Record<string, Statistics | null> = {
  'never analyzed': null,
  'of 50 million rows': { rows: MILLIONS, nulls: 0, distinct: usualDistinct },
  'of 50 million rows with a null wherever one may be': { rows: MILLIONS, nulls: 1, distinct: usualDistinct },
  'of 50 million rows of which no index with a condition had any': {
    rows: MILLIONS,
    partial_rows: 0,
    nulls: 0,
    distinct: usualDistinct,
  },
  'of 50 million rows of one tenant': {
    rows: MILLIONS,
    nulls: 0,
    distinct: (column) => (column.name === 'tenant_id' ? 1 : usualDistinct(column)),
  },
}

/** Replaces the statistics of all tables. Only the sizes of their files remain. */
export async function injectStatistics(sql: postgres.Sql, statistics: Statistics | null): Promise<void> {
  await sql`
    select pg_clear_relation_stats('public', c.relname::text) from pg_class c
    where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'i')`
  await sql`
    select pg_clear_attribute_stats('public', c.relname::text, a.attname::text, c.relkind = 'p')
    from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p')`
  if (statistics === null) return
  await sql`
    select pg_restore_relation_stats('schemaname', 'public', 'relname', c.relname::text,
      'relpages', greatest(pg_relation_size(c.oid) / 8192, 1)::integer, 'reltuples', case
        when x.indpred is null then ${statistics.rows} else ${statistics.partial_rows ?? statistics.rows} end::real)
    from pg_class c left join pg_index x on x.indexrelid = c.oid
    where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'i')`
  const columns = await sql<
    { table: string; name: string; type: string; inherited: boolean; nullable: boolean }[]
  >`
    select c.relname as table, a.attname as name, format_type(a.atttypid, null) as type, c.relkind = 'p' as inherited,
      not a.attnotnull as nullable
    from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p')`
  const restored = columns.map(({ nullable, ...column }) => ({
    ...column,
    nulls: nullable ? statistics.nulls : 0,
    distinct: nullable && statistics.nulls === 1 ? 0 : statistics.distinct(column),
  }))
  await sql`
    select pg_restore_attribute_stats('schemaname', 'public', 'relname', s.table, 'attname', s.name,
      'inherited', s.inherited, 'null_frac', s.nulls, 'avg_width', 16, 'n_distinct', s.distinct)
    from jsonb_to_recordset(${sql.json(restored)})
      as s("table" text, name text, inherited boolean, nulls real, "distinct" real)`
}

type PlanNode = {
  'Node Type': string
  'Relation Name'?: string
  'Index Name'?: string
  'Index Cond'?: string
  Filter?: string
  Plans?: PlanNode[]
}

type Index = {
  name: string
  /** The table; of a partition, the partitioned table. */
  table: string
  first_column: string
}

/** The indexes of all tables and partitions by name. */
export async function readIndexes(sql: postgres.Sql): Promise<Map<string, Index>> {
  const indexes = await sql<Index[]>`
    select i.relname as name, coalesce(pg_partition_root(x.indrelid), x.indrelid)::regclass::text as table,
      pg_get_indexdef(x.indexrelid, 1, true) as first_column
    from pg_index x join pg_class i on i.oid = x.indexrelid
    where i.relnamespace = 'public'::regnamespace`
  return new Map(indexes.map((index) => [index.name, index]))
}

/** Returns the generic plan of a statement with the types of parameters that its process sends. */
export async function genericPlan(
  sql: Sql,
  { text, types }: Pick<SentStatement, 'text' | 'types'>,
): Promise<PlanNode> {
  return await sql.begin(async (tx) => {
    const names = await tx<{ name: string }[]>`
      select case oid when '0' then 'unknown' else format_type(oid::oid, null) end as name
      from unnest(string_to_array(${types.join()}, ',')) with ordinality t(oid, nth) order by nth`
    const declared = names.length === 0 ? '' : `(${names.map(({ name }) => name).join()})`
    const values = names.length === 0 ? '' : `(${names.map(() => 'null').join()})`
    await tx.unsafe(`prepare planned ${declared} as ${text}`)
    const [row] = await tx.unsafe<{ 'QUERY PLAN': [{ Plan: PlanNode }] }[]>(
      `explain (format json, costs off) execute planned ${values}`,
    )
    await tx.unsafe('deallocate planned')
    return row!['QUERY PLAN'][0].Plan
  })
}

/** The scans of a plan that read a whole table or a whole index, one text for each. */
export function fullScansOf(plan: PlanNode, indexes: ReadonlyMap<string, Index>): string[] {
  const found: string[] = []
  const visit = (node: PlanNode, is_limited: boolean) => {
    const problem = problemOf(node, indexes, is_limited)
    if (problem !== undefined) found.push(problem)
    // A limit ends a scan early, unless the scan reads rows that it drops.
    const passes = ['Limit', 'LockRows', 'Append', 'Merge Append', 'Result'].includes(node['Node Type'])
    for (const child of node.Plans ?? [])
      visit(child, node['Node Type'] === 'Limit' || (is_limited && passes))
  }
  visit(plan, false)
  return found
}

/** The index scans of a plan, with their conditions. */
export function scansOf(
  plan: PlanNode,
  indexes: ReadonlyMap<string, Index>,
): { name: string; table: string; condition: string }[] {
  const index = indexes.get(plan['Index Name'] ?? '')
  const own = index === undefined ? [] : [{ ...index, condition: plan['Index Cond'] ?? '' }]
  return [...own, ...(plan.Plans ?? []).flatMap((child) => scansOf(child, indexes))]
}

function problemOf(
  node: PlanNode,
  indexes: ReadonlyMap<string, Index>,
  is_limited: boolean,
): string | undefined {
  const { 'Node Type': type, 'Index Name': index_name, 'Index Cond': condition } = node
  if (type === 'Seq Scan' || type === 'Sample Scan') {
    const table = node['Relation Name']!
    return SMALL_TABLES.has(table) || SHORT_LIVED.has(table) ? undefined : `${type} of ${table}`
  }
  const index = indexes.get(index_name ?? '')
  if (index === undefined || SMALL_TABLES.has(index.table) || index.name in FULL_SCANS) return undefined
  if (condition === undefined)
    return is_limited && node.Filter === undefined ? undefined : `${type} of all of ${index.name}`
  if (mentions(condition, index.first_column)) return undefined
  return `${type} of ${index.name} without its first column ${index.first_column}`
}

function mentions(condition: string, column: string): boolean {
  return /^\w+$/.test(column) ? new RegExp(`\\b${column}\\b`).test(condition) : condition.includes(column)
}

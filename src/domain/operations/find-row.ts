// Finds a row of a tenant by a search text: an id, a provider's reference, an email or a name.
import { z } from 'zod'
import { unionAll, type Fragment, type Sql } from '#core/db.ts'
import { CALLS } from '#jobs/index.ts'
import { RESOURCE_NAMES, resourceOf, type ResourceName } from '../resources.ts'

const resourceSchema = z.enum(RESOURCE_NAMES as [ResourceName, ...ResourceName[]])
export const foundRowSchema = z.object({
  resource: z.union([resourceSchema, z.literal('event')]),
  id: z.uuid(),
  /**
   * How the row was found: by its `id` (complete, or the end of it), its `reference` at the provider, an `email`, or
   * `words` in it.
   */
  by: z.enum(['id', 'reference', 'email', 'words']),
  /** The display name. */
  name: z.string().nullable(),
  amount_minor: z.int().nullable(),
  currency: z.string().nullable(),
})
export type FoundRow = z.output<typeof foundRowSchema>

const MAX_FOUND = 10
/**
 * Words, ends of ids and emails in another case have no index: this many of the latest rows of each resource
 * are searched.
 */
const MAX_SEARCHED_ROWS = 1000

/** The searched columns; the first is the display name. `has_amount`: the rows have an amount. */
const SEARCH_COLUMNS: Partial<Record<ResourceName, { columns: string[]; has_amount?: true }>> = {
  customer: { columns: ['name', 'email'] },
  recipient: { columns: ['name'] },
  merchant: { columns: ['display_name', 'legal_name'] },
  payment: { columns: ['description'], has_amount: true },
  refund: { columns: [], has_amount: true },
  dispute: { columns: [], has_amount: true },
  payout: { columns: ['description'], has_amount: true },
  top_up: { columns: ['description'], has_amount: true },
}

/** The rows that match this text, at most ten. */
export async function findRows(sql: Sql, tenant_id: string, text: string): Promise<FoundRow[]> {
  const columnsOf = (resource: ResourceName, by: FoundRow['by']) => rowColumns(sql, resource, by)
  if (z.uuid().safeParse(text).success) {
    const id = text.toLowerCase()
    const rows = RESOURCE_NAMES.map(
      (resource) => sql`
        select ${columnsOf(resource, 'id')} from ${sql(resourceOf(resource).table)} r
        where r.tenant_id = ${tenant_id} and r.id = ${id}`,
    )
    const event = sql`
      select 'event' as resource, e.id, 'id' as by, e.type as name, null::bigint as amount_minor, null as currency
      from events e where e.tenant_id = ${tenant_id} and e.id = ${id}`
    return await sql<FoundRow[]>`select * from (${unionAll(sql, [...rows, event])}) found limit ${MAX_FOUND}`
  }
  if (text.includes('@')) return await findByEmail(sql, tenant_id, text)
  const by_reference = RESOURCE_NAMES.flatMap((resource) => {
    const { table, at_provider } = resourceOf(resource)
    if (at_provider === undefined) return []
    const { reference, provider } = at_provider
    return [
      sql`
        select ${columnsOf(resource, 'reference')} from unnest(${PROVIDERS}::text[]) as requested(provider)
        join ${sql(table)} r on r.${sql(provider)} = requested.provider and r.${sql(reference)} = ${text}
        where r.tenant_id = ${tenant_id}`,
    ]
  })
  const found = await sql<FoundRow[]>`select * from (${unionAll(sql, by_reference)}) found limit ${MAX_FOUND}`
  return found.length > 0 ? found : await findAmongLatest(sql, tenant_id, text)
}

/**
 * Customers by email, newest first: exact and lower-case matches among all customers, and case-insensitive matches
 * among the latest customers.
 */
async function findByEmail(sql: Sql, tenant_id: string, email: string): Promise<FoundRow[]> {
  const columns = rowColumns(sql, 'customer', 'email')
  const lower = email.toLowerCase()
  return await sql<FoundRow[]>`
    select resource, id, by, name, amount_minor, currency from (
      select ${columns}, r.created_at from customers r
      where r.tenant_id = ${tenant_id} and r.email = any(${[email, lower]}::text[])
      union
      select ${columns}, r.created_at from (
        select * from customers l where l.tenant_id = ${tenant_id} order by l.created_at desc
          limit ${MAX_SEARCHED_ROWS}) r
      where lower(r.email) = ${lower}
    ) found order by created_at desc, id desc limit ${MAX_FOUND}`
}

/** The rows among the latest that match by words, or by the end of the id as tables show it: `…0a1b2c3d`. */
async function findAmongLatest(sql: Sql, tenant_id: string, text: string): Promise<FoundRow[]> {
  const [, end] = /^…?([0-9a-f]{8})$/i.exec(text) ?? []
  const pattern = `%${text.replaceAll(/[\\%_]/g, String.raw`\$&`)}%`
  const rows = (Object.keys(SEARCH_COLUMNS) as ResourceName[]).flatMap((resource) => {
    const { columns } = SEARCH_COLUMNS[resource]!
    if (end === undefined && columns.length === 0) return []
    const has = [
      ...columns.map((column) => sql`r.${sql(column)} ilike ${pattern}`),
      ...(end === undefined ? [] : [sql`right(r.id::text, 8) = ${end.toLowerCase()}`]),
    ].reduce((before, each) => sql`${before} or ${each}`)
    return [
      sql`(
        select ${rowColumns(sql, resource, end === undefined ? 'words' : 'id')} from (
          select * from ${sql(resourceOf(resource).table)} l
          where l.tenant_id = ${tenant_id} order by l.created_at desc limit ${MAX_SEARCHED_ROWS}) r
        where ${has} limit ${MAX_FOUND})`,
    ]
  })
  return await sql<FoundRow[]>`select * from (${unionAll(sql, rows)}) found limit ${MAX_FOUND}`
}

function rowColumns(sql: Sql, resource: ResourceName, by: FoundRow['by']): Fragment {
  const { columns = [], has_amount = false } = SEARCH_COLUMNS[resource] ?? {}
  const names = columns.map((column) => sql`r.${sql(column)}`)
  const name =
    names.length === 0 ? sql`null` : names.reduce((first, next) => sql`coalesce(${first}, ${next})`)
  return sql`${resource} as resource, r.id, ${by} as by, ${name} as name,
    ${has_amount ? sql`r.amount_minor` : sql`null::bigint as amount_minor`},
    ${has_amount ? sql`r.currency` : sql`null as currency`}`
}

/** The providers; references are unique within each. */
const PROVIDERS = [...new Set(CALLS.map(({ provider }) => provider))]

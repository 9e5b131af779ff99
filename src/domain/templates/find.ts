// Reads templates that are not deleted.
import { columnList, type Fragment, type Sql } from '#core/db.ts'
import { findByKeys, type KeyedResource, type KeyOnRoute } from '../idempotency.ts'
import { createdWithin, type ListPage } from '../pages.ts'
import { templateEventSchema, templateSchema, type Template } from './template.ts'

export type TemplateFilters = ListPage & { channel?: Template['channel']; name?: string }

/** The format of ids. Names cannot have this format, so a path parameter is either a name or an id. */
export const TEMPLATE_ID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

const LISTED = [...Object.keys(templateEventSchema.shape), 'subject']

/** The templates of a tenant, newest first, without the long parts. */
export async function listTemplates(
  sql: Sql,
  tenant_id: string,
  { channel, name, ...page }: TemplateFilters,
): Promise<Template[]> {
  // Only filters with an index change the statement's text, because each connection must plan every distinct text.
  return await sql<Template[]>`
    select ${columnList(sql, LISTED)}, null as text, null as html, null as body from templates
    where tenant_id = ${tenant_id} and ${createdWithin(sql, page)} and deleted_at is null
      and channel = coalesce(${channel ?? null}, channel)
      ${name === undefined ? sql`` : sql`and name = ${name}`}
    order by created_at desc limit ${page.limit}`
}

/** The template with this id or name; undefined when there is none. */
export async function findTemplate(
  sql: Sql,
  tenant_id: string,
  name_or_id: string,
): Promise<Template | undefined> {
  const matches = TEMPLATE_ID.test(name_or_id) ? sql`id = ${name_or_id}` : sql`name = ${name_or_id}`
  const [row] = await sql<Template[]>`
    select ${templateColumns(sql)} from templates
    where tenant_id = ${tenant_id} and ${matches} and deleted_at is null`
  return row
}

/**
 * The template that was created with this idempotency key, even if it was deleted later; undefined if there is none.
 */
export async function findTemplateByKey(
  sql: Sql,
  key: KeyOnRoute,
): Promise<KeyedResource<Template & { deleted_at: string | null }> | undefined> {
  const columns = sql`${templateColumns(sql)}, deleted_at`
  const [found] = await findByKeys<Template & { deleted_at: string | null }>(sql, 'template', columns, [key])
  return found
}

/** The columns of a template in answers. */
export function templateColumns(sql: Sql): Fragment {
  return columnList(sql, Object.keys(templateSchema.shape))
}

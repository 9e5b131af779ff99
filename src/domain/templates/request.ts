// Creates, changes and deletes templates.
import { isDeepStrictEqual } from 'node:util'
import { violatedConstraint, type Fragment, type Json, type Sql } from '#core/db.ts'
import { AppError } from '#core/errors.ts'
import { insertEvents, type EventType } from '../events.ts'
import { isKeyUsed, keyColumns, storeKeys, type IdempotentRequest } from '../idempotency.ts'
import { findTemplate, templateColumns } from './find.ts'
import { checkTemplate } from './render.ts'
import { findPartFaults, type Template, type TemplateParts } from './template.ts'

/** What the caller decides of a template. */
export type TemplateFields = TemplateParts & { name: string; metadata: Json }

export type CreateTemplate = TemplateFields &
  IdempotentRequest & { tenant_id: string; template_id: string; event_id: string }

/**
 * Creates a template; `key_used` when its key was used before. Throws `template_invalid`, `template_exists`, and a unique
 * violation when the key is used by another request at the same moment; nothing was written then.
 */
export async function createTemplate(
  sql: Sql,
  request: CreateTemplate,
  signal?: AbortSignal,
): Promise<Template | 'key_used'> {
  await checkTemplate(request.tenant_id, request, signal)
  const keys = sql`select a.*, template_id as resource_id, null::uuid as job_id from accepted a`
  const [row] = await withUniqueName(
    sql<Template[]>`
      with accepted as (
        select * from jsonb_to_recordset(${sql.json([request])}) as a(
          ${keyColumns(sql)}, tenant_id uuid, template_id uuid, event_id uuid, name text, channel text, subject text,
          text text, html text, body text, metadata jsonb)
        where not ${isKeyUsed(sql, 'template')}
      ), t as (
        insert into templates (tenant_id, id, idempotency_key, name, channel, subject, text, html, body, metadata)
        select tenant_id, template_id, idempotency_key, name, channel, subject, text, html, body,
          coalesce(metadata, 'null')
        from accepted
        returning *
      ),
      stored_keys as (${storeKeys(sql, 'template', keys)}),
      event as (${templateEvent(sql, 'created', request.event_id)})
      select ${templateColumns(sql)} from t`,
  )
  return row ?? 'key_used'
}

/**
 * Changes the given fields; the others stay. What is so already is no change and no event. Undefined when there is no
 * such template. Throws `invalid_request` and `template_invalid` for what it would become, and `template_exists`.
 */
export async function updateTemplate(
  sql: Sql,
  { tenant_id, id, event_id }: { tenant_id: string; id: string; event_id: string },
  changes: Partial<Omit<TemplateFields, 'channel'>>,
  signal?: AbortSignal,
): Promise<Template | undefined> {
  for (;;) {
    const read = await findTemplate(sql, tenant_id, id)
    if (read === undefined) return undefined
    const changed = { ...read, ...changes }
    if (isDeepStrictEqual(changed, read)) return read
    const details = findPartFaults(changed)
    const [first] = details
    if (first !== undefined)
      throw new AppError('invalid_request', {
        message: `${first.param} ${first.message}.`,
        param: first.param,
        details,
      })
    await checkTemplate(tenant_id, changed, signal)
    const written = await writeTemplate(sql, changed, event_id)
    // Somebody else changed it meanwhile.
    if (written !== undefined) return written
  }
}

/** Writes a template that still is as it was when it was read; undefined when it is not. */
async function writeTemplate(sql: Sql, changed: Template, event_id: string): Promise<Template | undefined> {
  const [row] = await withUniqueName(
    sql<Template[]>`
      with t as (
        update templates t set (name, subject, text, html, body, metadata, updated_at) = (
          select n.name, n.subject, n.text, n.html, n.body, coalesce(n.metadata, 'null'), clock_timestamp()
          from jsonb_populate_record(t, ${sql.json(changed)}) n)
        where t.tenant_id = ${changed.tenant_id} and t.id = ${changed.id} and t.deleted_at is null
          and t.updated_at = ${changed.updated_at}
        returning t.*
      ),
      event as (${templateEvent(sql, 'updated', event_id)})
      select ${templateColumns(sql)} from t`,
  )
  return row
}

/** Deletes a template, and returns it as it was; its name is free. Undefined when there is none. */
export async function deleteTemplate(
  sql: Sql,
  tenant_id: string,
  id: string,
  event_id: string,
): Promise<Template | undefined> {
  const [row] = await sql<Template[]>`
    with t as (
      update templates set deleted_at = clock_timestamp(), updated_at = clock_timestamp()
      where tenant_id = ${tenant_id} and id = ${id} and deleted_at is null
      returning *
    ),
    event as (${templateEvent(sql, 'deleted', event_id)})
    select ${templateColumns(sql)} from t`
  return row
}

async function withUniqueName<T>(written: Promise<T>): Promise<T> {
  try {
    return await written
  } catch (error) {
    if (violatedConstraint(error) !== 'templates_name') throw error
    throw new AppError('template_exists', { param: 'name', cause: error })
  }
}

/** The event of the row `t`. */
function templateEvent(sql: Sql, event_name: 'created' | 'updated' | 'deleted', event_id: string): Fragment {
  const event = `template.${event_name}` satisfies EventType
  return insertEvents(
    sql,
    'template',
    sql`select t.*, ${event_id}::uuid as event_id, ${event} as event from t`,
  )
}

// Creates, updates and deletes templates.
import { isDeepStrictEqual } from 'node:util'
import { violatedConstraint, type Fragment, type Json, type Sql } from '#core/db.ts'
import { AppError } from '#core/errors.ts'
import { insertingEvents, type EventType } from '../events.ts'
import { isKeyUsed, keyColumns, storingKeys, type IdempotentRequest } from '../idempotency.ts'
import { findTemplate, templateColumns } from './find.ts'
import { checkTemplate } from './render.ts'
import { findPartFaults, type Template, type TemplateParts } from './template.ts'

/** The fields of a template that the caller sets. */
export type TemplateFields = TemplateParts & { name: string; metadata: Json }

export type CreateTemplate = TemplateFields & IdempotentRequest & { template_id: string; event_id: string }

/**
 * Creates a template. Returns `key_used` when the key was used before. Throws `template_invalid`, `template_exists`,
 * and a unique violation when another request uses the key at the same time. After an error nothing is written.
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
      stored_keys as (${storingKeys(sql, 'template', keys)}),
      event as (${templateEvent(sql, 'created', request.event_id)})
      select ${templateColumns(sql)} from t`,
  )
  return row ?? 'key_used'
}

/**
 * Updates the fields in `changes`. Equal values change nothing and create no event. Undefined when there is no such
 * template. Throws `template_exists`, and `invalid_request` or `template_invalid` for an invalid result.
 */
export async function updateTemplate(
  sql: Sql,
  { tenant_id, id, event_id }: { tenant_id: string; id: string; event_id: string },
  changes: Partial<Omit<TemplateFields, 'channel'>>,
  signal?: AbortSignal,
): Promise<Template | undefined> {
  for (;;) {
    const existing = await findTemplate(sql, tenant_id, id)
    if (existing === undefined) return undefined
    const changed = { ...existing, ...changes }
    if (isDeepStrictEqual(changed, existing)) return existing
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
    // `written` is undefined if another request changed the template meanwhile.
    if (written !== undefined) return written
  }
}

/** Updates a template if it has not changed since it was read; undefined if another request has changed it. */
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

/** Deletes a template, frees its name and returns it. Undefined when there is none. */
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
  return insertingEvents(
    sql,
    'template',
    sql`select t.*, ${event_id}::uuid as event_id, ${event} as event from t`,
  )
}

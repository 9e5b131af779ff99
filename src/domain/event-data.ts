// Completes the data of events with fields that only the resource's row stores.
import { z } from 'zod'
import type { Json, Sql } from '#core/db.ts'
import { SealError, type Vault } from '#core/secrets.ts'
import type { CompletionRow } from './resource.ts'
import { resourceNameOf, resourceOf, type ResourceName } from './resources.ts'

/** An event with its stored data. */
export type StoredEvent = { tenant_id: string; type: string; stored: Json }

/** Completes the data of an event with the row that was found for it. */
export type EventCompleter = (event: StoredEvent, row: CompletionRow | null) => Json

/** The maximum size of a value in lists of events; longer values are omitted. */
export const MAX_LISTED_VALUE_BYTES = 20_000

const identifiedData = z.object({ id: z.uuid() })

/**
 * The rows that complete events, in the order of `events`, with one statement per resource. Null for an event that
 * needs no row, and for an event whose row is deleted.
 */
export async function findCompletionRows(
  sql: Sql,
  events: StoredEvent[],
  max_bytes: number | null,
): Promise<(CompletionRow | null)[]> {
  const wanted = events.flatMap((event, nth) => {
    const key = keyOf(event)
    return key === undefined ? [] : [{ ...key, nth }]
  })
  const found: (CompletionRow | null)[] = events.map(() => null)
  for (const [resource, requested] of Map.groupBy(wanted, (each) => each.resource)) {
    const { table, completion } = resourceOf(resource)
    const rows = await sql<(CompletionRow & { nth: number[] })[]>`
      select requested.nth, p.tenant_id, p.id, ${completion!.columns(sql, max_bytes)}
      from (
        select a.tenant_id, a.id, jsonb_agg(a.nth) as nth
        from jsonb_to_recordset(${sql.json(requested)}) as a(tenant_id uuid, id uuid, nth integer) group by 1, 2
      ) requested
      cross join lateral (
        select * from ${sql(table)} p where p.tenant_id = requested.tenant_id and p.id = requested.id offset 0) p`
    for (const { nth: indexes, ...row } of rows) for (const nth of indexes) found[nth] = row
  }
  return found
}

/**
 * The data of an event, with the fields of `row`. A field is null if its value was erased, or if the event has no value
 * for it. Throws SealError when this process does not have the key of a sealed value.
 */
export function completeEventData(
  { type, stored }: StoredEvent,
  row: CompletionRow | null,
  vault: Vault,
): Json {
  const resource = resourceNameOf(type)
  const completion = resource && resourceOf(resource).completion
  if (completion === undefined) return stored
  const empty = Object.fromEntries(completion.fields.map((field) => [field, null]))
  return Object.assign(
    {},
    stored,
    empty,
    row === null ? {} : opened(() => completion.open(row, stored, vault)),
  )
}

/** Throws SealError for invalid plaintext too, because a parser's error could contain the text. */
function opened(open: () => Record<string, Json>): Record<string, Json> {
  try {
    return open()
  } catch (error) {
    throw error instanceof SealError ? error : new SealError('the sealed value is invalid')
  }
}

/**
 * The key of the row that completes an event, always of the event's own tenant. Undefined when the event needs no
 * row.
 */
function keyOf({
  tenant_id,
  type,
  stored,
}: StoredEvent): { resource: ResourceName; tenant_id: string; id: string } | undefined {
  const resource = resourceNameOf(type)
  if (resource === undefined) return undefined
  const { completion } = resourceOf(resource)
  if (completion === undefined || completion.event_names?.every((name) => type !== `${resource}.${name}`))
    return undefined
  const identified = identifiedData.safeParse(stored).data
  return identified && { resource, tenant_id, id: identified.id }
}

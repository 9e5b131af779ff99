// Completes the data of events: what they do not store is read from the rows that have the only copy.
import { z } from 'zod'
import type { Json, Sql } from '#core/db.ts'
import { SealError, type Vault } from '#core/secrets.ts'
import type { CompletingRow } from './subject.ts'
import { nounOf, subjectOf, type Noun } from './subjects.ts'

/** An event with the data that it stores. */
export type StoredEvent = { tenant_id: string; type: string; stored: Json }

/** Completes the data of an event by the row that was found for it. */
export type CompleteData = (event: StoredEvent, row: CompletingRow | null) => Json

/** Where many events are read, a longer value is left out of their data. */
export const MOST_BYTES_OF_MANY = 20_000

const named = z.object({ id: z.uuid() })

/**
 * The rows that complete events, in their order: one statement for each noun of which there are any. Null for an event that needs
 * none, and for one whose row is gone.
 */
export async function findCompletingRows(
  sql: Sql,
  events: StoredEvent[],
  most_bytes: number | null,
): Promise<(CompletingRow | null)[]> {
  const wanted = events.flatMap((event, nth) => {
    const key = keyOf(event)
    return key === undefined ? [] : [{ ...key, nth }]
  })
  const found: (CompletingRow | null)[] = events.map(() => null)
  for (const [noun, asked] of Map.groupBy(wanted, (each) => each.noun)) {
    const { table, completes } = subjectOf(noun)
    const rows = await sql<(CompletingRow & { nth: number[] })[]>`
      select asked.nth, p.tenant_id, p.id, ${completes!.columns(sql, most_bytes)}
      from (
        select a.tenant_id, a.id, jsonb_agg(a.nth) as nth
        from jsonb_to_recordset(${sql.json(asked)}) as a(tenant_id uuid, id uuid, nth integer) group by 1, 2
      ) asked
      cross join lateral (
        select * from ${sql(table)} p where p.tenant_id = asked.tenant_id and p.id = asked.id offset 0) p`
    for (const { nth: places, ...row } of rows) for (const nth of places) found[nth] = row
  }
  return found
}

/**
 * The data of an event, with what `row` adds. Null stands for what is not there: it was erased, or the event has none of it.
 * Throws SealError when the keys of this process do not open it.
 */
export function completedData({ type, stored }: StoredEvent, row: CompletingRow | null, vault: Vault): Json {
  const noun = nounOf(type)
  const completion = noun && subjectOf(noun).completes
  if (completion === undefined) return stored
  const nothing = Object.fromEntries(completion.fields.map((field) => [field, null]))
  return Object.assign(
    {},
    stored,
    nothing,
    row === null ? {} : opened(() => completion.open(row, stored, vault)),
  )
}

/** What was sealed and is no such thing is as good as one that does not open; the first error could show the text. */
function opened(open: () => Record<string, Json>): Record<string, Json> {
  try {
    return open()
  } catch (error) {
    throw error instanceof SealError ? error : new SealError('what was sealed cannot be read')
  }
}

/** The row that completes an event, if it needs one: always of its own tenant. */
function keyOf({
  tenant_id,
  type,
  stored,
}: StoredEvent): { noun: Noun; tenant_id: string; id: string } | undefined {
  const noun = nounOf(type)
  if (noun === undefined) return undefined
  const { completes } = subjectOf(noun)
  if (completes === undefined || completes.words?.every((word) => type !== `${noun}.${word}`))
    return undefined
  const about = named.safeParse(stored).data
  return about && { noun, tenant_id, id: about.id }
}

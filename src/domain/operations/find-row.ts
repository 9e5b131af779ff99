// Finds a row of a tenant by what people have of it: an id, or what a provider or a person calls it.
import { z } from 'zod'
import { unionAll, type Sql } from '#core/db.ts'
import { CALLS } from '#jobs/index.ts'
import { NOUNS, subjectOf, type Noun } from '../subjects.ts'

const nounSchema = z.enum(NOUNS as [Noun, ...Noun[]])
export const foundRowSchema = z.object({
  noun: z.union([nounSchema, z.literal('event')]),
  id: z.uuid(),
  /** How it was found: by its `id`, its `reference` at the provider, or an `email`. */
  by: z.enum(['id', 'reference', 'email']),
})
export type FoundRow = z.output<typeof foundRowSchema>

const MOST = 10

/** The rows that this text names, at most ten. Each is looked up by an index. */
export async function findRows(sql: Sql, tenant_id: string, text: string): Promise<FoundRow[]> {
  if (z.uuid().safeParse(text).success) {
    const id = text.toLowerCase()
    const rows = NOUNS.map(
      (noun) => sql`
        select ${noun} as noun, r.id, 'id' as by from ${sql(subjectOf(noun).table)} r
        where r.tenant_id = ${tenant_id} and r.id = ${id}`,
    )
    const event = sql`
      select 'event' as noun, e.id, 'id' as by from events e where e.tenant_id = ${tenant_id} and e.id = ${id}`
    return await sql<FoundRow[]>`select * from (${unionAll(sql, [...rows, event])}) found limit ${MOST}`
  }
  if (text.includes('@'))
    return await sql<FoundRow[]>`
      select 'customer' as noun, id, 'email' as by from customers
      where tenant_id = ${tenant_id} and email = ${text} order by created_at desc limit ${MOST}`
  const known = NOUNS.flatMap((noun) => {
    const { table, at_provider } = subjectOf(noun)
    if (at_provider === undefined) return []
    const { reference, provider } = at_provider
    return [
      sql`
        select ${noun} as noun, r.id, 'reference' as by from unnest(${PROVIDERS}::text[]) as asked(provider)
        join ${sql(table)} r on r.${sql(provider)} = asked.provider and r.${sql(reference)} = ${text}
        where r.tenant_id = ${tenant_id}`,
    ]
  })
  return await sql<FoundRow[]>`select * from (${unionAll(sql, known)}) found limit ${MOST}`
}

/** The names of the providers under which references are unique. */
const PROVIDERS = [...new Set(CALLS.map(({ provider }) => provider))]

// Fills in rows that were made again, when their creation is requested again: with what the provider does not hold.
import type { Fragment, Json, Sql, Tx } from '#core/db.ts'
import { insertingEvents } from '../events.ts'
import { storingKeys, type IdempotentRequest, type KeyedResource } from '../idempotency.ts'
import { resourceOf, type ResourceName } from '../resources.ts'
import { cancelOutdatedVerifications } from '../verifications/cancel.ts'
import type { VerificationSubjectType } from '../verifications/verification.ts'

/** Columns that no provider returns. */
const NOT_AT_PROVIDER = ['metadata', 'return_url']

/** Fills in the empty columns of a row that was made again from the content of its request. */
export async function fillRecoveredRow(
  sql: Sql,
  resource: ResourceName,
  { tenant_id, id }: { tenant_id: string; id: string },
  content: object,
): Promise<void> {
  const { table, view, events } = resourceOf(resource)
  if (!('recovered' in events)) return
  const columns = NOT_AT_PROVIDER.filter((column) => column in view.shape)
  if (columns.length === 0) return
  const name = sql(table)
  const values = columns.map((column, nth) => {
    const stored = sql(`r.${column}`)
    const sent = sql(`f.${column}`)
    const empty = column === 'metadata' ? sql`${stored} = '{}'` : sql`${stored} is null`
    return sql`${nth === 0 ? sql`` : sql`,`} ${sql(column)} = case when ${empty} then coalesce(${sent}, ${stored})
      else ${stored} end`
  })
  await sql`
    update ${name} r set ${values} from jsonb_populate_record(null::${name}, ${sql.json(content as Json)}) f
    where r.tenant_id = ${tenant_id} and r.id = ${id} and r.recovered_at is not null`
}

/**
 * Fills in a customer, merchant or recipient of which only the id was known, and stores the key of its creation. Its
 * verifications that were requested for other content are outdated from then on.
 * `columns`: the columns of the answer. Undefined if there is no such party: its creation was not lost. The fingerprint
 * is empty, and nothing is written, if the lost request had other content.
 */
export async function fillParty<T extends object>(
  sql: Sql,
  type: VerificationSubjectType,
  request: IdempotentRequest & { id: string; event_id: string },
  { fields, columns }: { fields: object; columns: Fragment },
): Promise<KeyedResource<T> | undefined> {
  const { tenant_id, id, event_id, idempotency_key, fingerprint } = request
  return await sql.begin(async (tx) => {
    const content = { ...fields, idempotency_key } as Json
    const [filled] = await tx<{ done: boolean }[]>`
      select fill_party(${type}, ${tenant_id}, ${id}, ${tx.json(content)}) as done`
    if (filled?.done !== true) return await findPlaceholder(tx, type, { tenant_id, id }, columns)
    await cancelOutdatedVerifications(tx, { tenant_id, subject_type: type, subject_id: id })
    const key = tx`
      select ${tenant_id}::uuid as tenant_id, ${idempotency_key}::text as idempotency_key,
        ${request.route}::text as route, ${fingerprint}::text as fingerprint, id as resource_id, null::uuid as job_id
      from r`
    const new_events = tx`select r.*, ${event_id}::uuid as event_id, ${`${type}.updated`}::text as event from r`
    const [resource] = await tx<T[]>`
      with r as (
        select * from ${tx(resourceOf(type).table)} where tenant_id = ${tenant_id} and id = ${id}
      ),
      stored_keys as (${storingKeys(tx, type, key)}),
      event as (${insertingEvents(tx, type, new_events)})
      select ${columns} from r`
    return resource && { fingerprint, resource }
  })
}

async function findPlaceholder<T extends object>(
  tx: Tx,
  type: VerificationSubjectType,
  { tenant_id, id }: { tenant_id: string; id: string },
  columns: Fragment,
): Promise<KeyedResource<T> | undefined> {
  const [resource] = await tx<T[]>`
    select ${columns} from ${tx(resourceOf(type).table)}
    where tenant_id = ${tenant_id} and id = ${id} and idempotency_key = any(placeholder_keys(${id}::uuid))
      and recovered_at is not null`
  return resource && { fingerprint: '', resource }
}

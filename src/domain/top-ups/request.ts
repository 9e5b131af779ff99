// Requests to create top-ups. One statement inserts the top-up, opens the accounts, stores the key and inserts the job.
import type { Json, Sql } from '#core/db.ts'
import { requestJson } from '#jobs/job.ts'
import { createTopUp } from '#jobs/top-ups.ts'
import { insertingEvents, type EventType } from '../events.ts'
import { isKeyUsed, jobRequestColumns, storingKeys, type JobRequest } from '../idempotency.ts'
import { enqueuingJobs } from '../jobs/request.ts'
import { openingAccounts } from '../ledger.ts'
import { providerMetadata } from '../provider-metadata.ts'

export type TopUpRequest = JobRequest & {
  top_up_id: string
  amount_minor: number
  /** In lower case. */
  currency: string
  /** Sealed. */
  source: string | null
  masked_source: string | null
  description: string | null
  metadata: Json
  processor: string
}

/**
 * Creates top-ups and inserts their jobs. Returns the result by top-up id; `key_used`: the key was used before.
 * Throws a unique violation, and writes nothing, when another request uses one of the keys at the same time.
 */
export async function requestTopUps(
  sql: Sql,
  requests: TopUpRequest[],
): Promise<Map<string, 'accepted' | 'key_used'>> {
  const currencies = sql`select tenant_id, upper(currency) as currency from t`
  const keys = sql`select *, top_up_id as resource_id from accepted`
  const new_events = sql`
    select t.*, a.event_id, ${'top_up.created' satisfies EventType} as event
    from t join accepted a on a.tenant_id = t.tenant_id and a.top_up_id = t.id`
  const request = requestJson(sql, createTopUp, {
    amount_minor: sql`amount_minor`,
    currency: sql`currency`,
    description: sql`description`,
    sealed: sql`jsonb_strip_nulls(jsonb_build_object('source', source))`,
    metadata: providerMetadata(sql, 'top_up'),
  })
  const rows = await sql<{ id: string; result: 'accepted' | 'key_used' }[]>`
    with requests as (
      select a.*, ${isKeyUsed(sql, 'top_up')} as key_used from jsonb_to_recordset(${sql.json(requests)}) as a(
        ${jobRequestColumns(sql)}, top_up_id uuid, amount_minor bigint, currency text, source text,
        masked_source text, description text, metadata jsonb, processor text)
    ), accepted as (
      select * from requests where not key_used
    ), t as (
      insert into top_ups (tenant_id, id, idempotency_key, amount_minor, currency, source, description, metadata,
        processor)
      select tenant_id, top_up_id, idempotency_key, amount_minor, currency, masked_source, description,
        coalesce(metadata, 'null'), processor
      from accepted
      returning *
    ),
    opened as (${openingAccounts(sql, currencies)}),
    stored_keys as (${storingKeys(sql, 'top_up', keys)}),
    event as (${insertingEvents(sql, 'top_up', new_events)}),
    job as (${enqueuingJobs(sql, createTopUp, 'top_up', sql`accepted`, request)})
    select id, 'accepted' as result from t union all select top_up_id, 'key_used' from requests where key_used`
  return new Map(rows.map(({ id, result }) => [id, result]))
}

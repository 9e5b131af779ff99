// Idempotency keys: written in the same step as what they protect, and asked when that step was refused.
import type { Fragment, Sql, Tx } from '#core/db.ts'
import { subjectOf, type Noun } from './subjects.ts'

/** A request as its key remembers it. `idempotency_key` null: the caller sent none, nothing is remembered. */
export type IdempotentRequest = {
  idempotency_key: string | null
  /** The route with its path parameters, e.g. `POST /v1/payments/:id/capture 0198...`. */
  scope: string
  /** Hash of the validated body. */
  fingerprint: string
  /** Under which the log tells of it, and of the job that it asks for. Null: nobody's request. */
  request_id: string | null
}

/** The same of one that asks for a job: whose it is, that job, and whether it is rung for at once. */
export type JobRequest = IdempotentRequest & {
  tenant_id: string
  job_id: string
  event_id: string
  rung: boolean
}

export type Remembered = {
  key: string
  scope: string
  fingerprint: string
  /** The noun. */
  resource: Noun
  resource_id: string
  job_id: string | null
  created_at: string
}

/**
 * Whether the key of the request `a` is known: remembered on this route, or that of a row of `resource`, which outlives what is
 * remembered. What is known is left out of the accepting step, so that a replay undoes nothing for its neighbours. The `offset`
 * keeps each a look-up for each request: as an anti-join, planned while the table is empty, it would scan for ever.
 */
export function isKnown(sql: Sql | Tx, resource?: Noun): Fragment {
  const remembered = sql`exists (
    select from idempotency_keys k where k.tenant_id = a.tenant_id and k.key = a.idempotency_key and k.scope = a.scope offset 0)`
  if (resource === undefined) return remembered
  return sql`(${remembered} or exists (
    select from ${sql(subjectOf(resource).table)} r where r.tenant_id = a.tenant_id and r.idempotency_key = a.idempotency_key offset 0))`
}

/**
 * Writes the keys as a part of the accepting step. No "on conflict": of two requests with one key at the same time, the second
 * finds it taken, its whole step is undone, and it becomes a replay. `accepted` selects `tenant_id, idempotency_key, scope, fingerprint, resource_id, job_id`.
 */
export function remember(sql: Sql | Tx, resource: Noun, accepted: Fragment): Fragment {
  return sql`
    insert into idempotency_keys (tenant_id, key, scope, fingerprint, resource, resource_id, job_id)
    select tenant_id, idempotency_key, scope, fingerprint, ${resource}, resource_id, job_id
    from (${accepted}) accepted where idempotency_key is not null`
}

/** A key as it was sent, on its route. */
export type SentKey = { tenant_id: string; key: string; scope: string }

/** What each key protects on its route, in the order asked; undefined where that is nothing. */
export async function findRemembered(sql: Sql, asked: SentKey[]): Promise<(Remembered | undefined)[]> {
  const rows = await sql<(Remembered & { nth: number })[]>`
    select a.nth, k.*
    from jsonb_to_recordset(${sql.json(asked.map((each, nth) => ({ ...each, nth })))}) as a(nth integer, tenant_id uuid, key text, scope text)
    cross join lateral (
      select key, scope, fingerprint, resource, resource_id, job_id, created_at from idempotency_keys
      where tenant_id = a.tenant_id and key = a.key and scope = a.scope offset 0
    ) k`
  const found = new Map(rows.map(({ nth, ...remembered }) => [nth, remembered]))
  return asked.map((_each, nth) => found.get(nth))
}

/**
 * What a tenant's key protects, with the state of its job (null where there is none), newest first: a page of `limit`. What was
 * accepted in one moment stays together, so that the moment is a cursor: there may be a few more. The `offset` keeps it a look-up
 * by the key, whatever the order.
 */
export async function listByKey(
  sql: Sql,
  tenant_id: string,
  key: string,
  { before = 'infinity', limit }: { before?: string; limit: number },
): Promise<(Remembered & { job_state: string | null })[]> {
  return await sql<(Remembered & { job_state: string | null })[]>`
    select k.key, k.scope, k.fingerprint, k.resource, k.resource_id, k.job_id, k.created_at, j.state as job_state
    from (
      select * from (select * from idempotency_keys where tenant_id = ${tenant_id} and key = ${key} offset 0) of_key
      where created_at < ${before} order by created_at desc fetch first ${limit} rows with ties
    ) k
    left join lateral (select j.state from all_jobs j where j.tenant_id = k.tenant_id and j.id = k.job_id offset 0) j on true
    order by k.created_at desc`
}

/** Forgets keys after 30 days, oldest first and some at a time; the unique key on the resource still prevents a second one. */
export async function forgetOldKeys(sql: Sql, limit: number): Promise<number> {
  const rows = await sql`
    delete from idempotency_keys where ctid = any(array(
      select ctid from idempotency_keys where created_at < now() - interval '30 days'
      order by created_at limit ${limit}))`
  return rows.count
}

// Idempotency keys. The statement that accepts a request also stores its key. When the statement accepts nothing, the
// stored key is looked up.
import type { Fragment, Sql, Tx } from '#core/db.ts'
import { createdWithin, type ListPage } from './pages.ts'
import { resourceOf, type ResourceName } from './resources.ts'

/** The stored part of a request. `idempotency_key` null: the caller sent no key, and nothing is stored. */
export type IdempotentRequest = {
  tenant_id: string
  idempotency_key: string | null
  /**
   * The route with its path parameters, e.g. `POST /v1/payments/:id/capture 0198...`. A key may be used once per route.
   * (The column is called `scope`.)
   */
  route: string
  /** A hash of the validated body. */
  fingerprint: string
  /** The id in the log lines of the request and of its job; null when no request created the job. */
  request_id: string | null
}

/** A request for a job. `will_wake`: this process wakes a worker for the job right after the commit. */
export type JobRequest = IdempotentRequest & {
  job_id: string
  event_id: string
  will_wake: boolean
}

/** The column definitions of an `IdempotentRequest` in `jsonb_to_recordset`. */
export function keyColumns(sql: Sql | Tx): Fragment {
  return sql`idempotency_key text, route text, fingerprint text`
}

/** The column definitions of a `JobRequest` in `jsonb_to_recordset`. */
export function jobRequestColumns(sql: Sql | Tx): Fragment {
  return sql`
    tenant_id uuid, job_id uuid, event_id uuid, will_wake boolean, request_id text, ${keyColumns(sql)}`
}

export type StoredKey = {
  key: string
  route: string
  fingerprint: string
  /** The type of the resource that the request created or changed. */
  resource: ResourceName
  resource_id: string
  job_id: string | null
  created_at: string
}

/**
 * Whether the key of the request `a` was used before: stored for this route, or in a row of `resource`, which is
 * retained longer than the key. `route_rows`: the condition on rows `r` that this route creates, if several routes
 * create rows. The accepting statement skips such requests, so that a replay does not roll back its batch. The
 * `offset` forces a lookup per request: an anti-join that was planned while the table was empty would later scan the
 * table.
 */
export function isKeyUsed(sql: Sql | Tx, resource?: ResourceName, route_rows = sql`true`): Fragment {
  const stored = sql`exists (
    select from idempotency_keys k
    where k.tenant_id = a.tenant_id and k.key = a.idempotency_key and k.scope = a.route offset 0)`
  if (resource === undefined) return stored
  return sql`(${stored} or exists (
    select from ${sql(resourceOf(resource).table)} r
    where r.tenant_id = a.tenant_id and r.idempotency_key = a.idempotency_key and ${route_rows} offset 0))`
}

/**
 * A part of the accepting statement that stores the keys. `accepted` selects `tenant_id, idempotency_key, route,
 * fingerprint, resource_id, job_id`. There is no "on conflict": when two requests use a key at the same time, the
 * second statement fails and is rolled back, and its request becomes a replay.
 */
export function storingKeys(sql: Sql | Tx, resource: ResourceName, accepted: Fragment): Fragment {
  return sql`
    insert into idempotency_keys (tenant_id, key, scope, fingerprint, resource, resource_id, job_id)
    select tenant_id, idempotency_key, route, fingerprint, ${resource}, resource_id, job_id
    from (${accepted}) accepted where idempotency_key is not null`
}

/** A request's key and its route. */
export type KeyOnRoute = { tenant_id: string; key: string; route: string }

/** The stored keys, in the order of `requested`; undefined for a key that is not stored. */
export async function findStoredKeys(sql: Sql, requested: KeyOnRoute[]): Promise<(StoredKey | undefined)[]> {
  const rows = await sql<(StoredKey & { nth: number })[]>`
    select k.key, k.scope as route, k.fingerprint, k.resource, k.resource_id, k.job_id, k.created_at, nth
    from ${storedKeys(sql, requested)}`
  return inOrder(requested, rows, (stored) => stored)
}

/** The resource that the first request with a key created, and the fingerprint of that request. */
export type KeyedResource<T> = { fingerprint: string; resource: T }

/**
 * The resources that earlier requests with these keys created, in the order of `requested`; undefined if there is none.
 * For requests that are answered without a job. `columns`: the columns of the resource.
 */
export async function findByKeys<T extends object>(
  sql: Sql,
  resource: ResourceName,
  columns: Fragment,
  requested: KeyOnRoute[],
): Promise<(KeyedResource<T> | undefined)[]> {
  const rows = await sql<(T & { nth: number; fingerprint: string })[]>`
    select nth, k.fingerprint, r.*
    from ${storedKeys(sql, requested)}
    cross join lateral (
      select ${columns} from ${sql(resourceOf(resource).table)}
      where tenant_id = k.tenant_id and id = k.resource_id offset 0
    ) r`
  return inOrder(requested, rows, ({ fingerprint, ...resource }) => ({
    fingerprint,
    resource: resource as unknown as T,
  }))
}

/** The stored keys `k` of the requested keys, with the index `nth` in `requested`. */
function storedKeys(sql: Sql, requested: KeyOnRoute[]): Fragment {
  return sql`
    jsonb_to_recordset(${sql.json(requested.map((each, nth) => ({ ...each, nth })))}) as a(
      nth integer, tenant_id uuid, key text, route text)
    cross join lateral (
      select * from idempotency_keys
      where tenant_id = a.tenant_id and key = a.key and scope = a.route offset 0
    ) k`
}

function inOrder<Row extends { nth: number }, T>(
  requested: KeyOnRoute[],
  rows: Row[],
  valueOf: (row: Omit<Row, 'nth'>) => T,
): (T | undefined)[] {
  const found = new Map(rows.map(({ nth, ...row }) => [nth, valueOf(row)]))
  return requested.map((_each, nth) => found.get(nth))
}

/**
 * Resolves when all changes that this process has read are at the synchronous standby. An earlier commit may have been
 * seen although its wait was canceled, or ended by a restart of the server. This commit waits, and the standby receives
 * commits in their order.
 */
export async function confirmReplicated(sql: Sql): Promise<void> {
  await sql`select setval('replication_confirmations', 1)`
}

/**
 * All uses of a tenant's key, with the state of each job (null without a job), newest first: a page of `limit`. Rows
 * of the same time are never split between pages, so the time can be the cursor: there may be a few more rows. The
 * `offset` forces a lookup by the key.
 */
export async function listKeyUses(
  sql: Sql,
  tenant_id: string,
  key: string,
  page: ListPage,
): Promise<(StoredKey & { job_state: string | null })[]> {
  return await sql<(StoredKey & { job_state: string | null })[]>`
    select k.key, k.scope as route, k.fingerprint, k.resource, k.resource_id, k.job_id, k.created_at,
      j.state as job_state
    from (
      select * from (select * from idempotency_keys where tenant_id = ${tenant_id} and key = ${key} offset 0) of_key
      where ${createdWithin(sql, page)} order by created_at desc fetch first ${page.limit} rows with ties
    ) k
    left join lateral (
      select j.state from all_jobs j where j.tenant_id = k.tenant_id and j.id = k.job_id offset 0
    ) j on true
    order by k.created_at desc`
}

/**
 * Deletes keys older than 30 days, oldest first, at most `limit`. Returns the count. The unique key on the resource
 * still prevents duplicates.
 */
export async function deleteOldKeys(sql: Sql, limit: number): Promise<number> {
  const rows = await sql`
    delete from idempotency_keys where ctid = any(array(
      select ctid from idempotency_keys where created_at < now() - interval '30 days'
      order by created_at limit ${limit}))`
  return rows.count
}

// API keys: `sk_live_<tenant>_<random32>`, shown once, kept as a hash, limited to scopes.
import { createHash, randomInt } from 'node:crypto'
import { newId } from '#core/ids.ts'
import type { Fragment, Sql, Tx } from '#core/db.ts'
import type { Scope } from './areas.ts'
import type { Tenant } from './tenants.ts'

export type ApiKey = {
  id: string
  name: string
  last_four: string
  scopes: Scope[]
  created_at: string
  last_used_at: string | null
  expires_at: string | null
  revoked_at: string | null
}

/** The tenant and scopes of a valid key. */
export type Credentials = { key_id: string; tenant_id: string; scopes: Set<Scope> }

const SHAPE = /^sk_live_[a-z0-9-]{1,40}_[0-9A-Za-z]{32}$/
const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

/** Whose keys they are. */
type KeyTenant = Pick<Tenant, 'id' | 'slug'>

/** Makes a key. `secret` is the whole key; it is not kept and cannot be shown again. */
export async function createApiKey(
  sql: Sql | Tx,
  tenant: KeyTenant,
  key: { name: string; scopes: Scope[]; expires_at: string | null },
): Promise<ApiKey & { secret: string }> {
  const secret = newSecret(tenant)
  const [row] = await sql<ApiKey[]>`
    insert into api_keys (tenant_id, id, name, hash, last_four, scopes, expires_at)
    values (${tenant.id}, ${newId()}, ${key.name}, ${hashOf(secret)}, ${secret.slice(-4)}, ${key.scopes},
      ${key.expires_at})
    returning ${keyColumns(sql)}`
  return { ...row!, secret }
}

/** The keys of a tenant, newest first. */
export async function listApiKeys(sql: Sql, tenant_id: string): Promise<ApiKey[]> {
  return await sql<ApiKey[]>`
    select ${keyColumns(sql)} from api_keys
    where tenant_id = ${tenant_id} order by created_at desc`
}

/**
 * Replaces a key with one that has the same name, scopes and expiry; the old one works for at most `grace_s` more
 * seconds. Undefined when there is no such key, or it is no longer valid.
 */
export async function rotateApiKey(
  sql: Sql | Tx,
  tenant: KeyTenant,
  id: string,
  grace_s: number,
): Promise<(ApiKey & { secret: string }) | undefined> {
  const secret = newSecret(tenant)
  const [row] = await sql<ApiKey[]>`
    with old as (
      select tenant_id, id, name, scopes, expires_at from api_keys
      where tenant_id = ${tenant.id} and id = ${id} and revoked_at is null
        and (expires_at is null or expires_at > now())
      for update
    ), ending as (
      update api_keys k set expires_at = least(old.expires_at, now() + ${grace_s} * interval '1 second')
      from old where k.tenant_id = old.tenant_id and k.id = old.id
    )
    insert into api_keys (tenant_id, id, name, hash, last_four, scopes, expires_at)
    select tenant_id, ${newId()}, name, ${hashOf(secret)}, ${secret.slice(-4)}, scopes, expires_at from old
    returning ${keyColumns(sql)}`
  return row && { ...row, secret }
}

/**
 * Revokes a key; all processes refuse it within a second. False when there is no such key, or it was already revoked.
 */
export async function revokeApiKey(sql: Sql | Tx, tenant_id: string, id: string): Promise<boolean> {
  const rows = await sql`
    update api_keys set revoked_at = now()
    where tenant_id = ${tenant_id} and id = ${id} and revoked_at is null
    returning id`
  return rows.length > 0
}

/** Whether this has the form of a key; anything else need not be looked up. */
export function isKeyShaped(secret: string): boolean {
  return SHAPE.test(secret)
}

type FoundCredentials = Credentials & { expires_in_ms: number | null }

/** The credentials of a key, or undefined when it is unknown, revoked or expired. */
export async function findCredentials(sql: Sql, secret: string): Promise<FoundCredentials | undefined> {
  return (await findEachCredentials(sql, [secret]))[0]
}

/** The same for several keys at once, in their order. */
export async function findEachCredentials(
  sql: Sql,
  secrets: string[],
): Promise<(FoundCredentials | undefined)[]> {
  const hashes = secrets.map((secret) => hashOf(secret).toString('hex'))
  const rows = await sql<
    { hash: string; id: string; tenant_id: string; scopes: Scope[]; expires_in_ms: number | null }[]
  >`
    select encode(hash, 'hex') as hash, id, tenant_id, scopes,
      extract(epoch from expires_at - now())::float8 * 1000 as expires_in_ms
    from api_keys
    where hash = any(${hashes.map((hash) => String.raw`\x${hash}`)}::text[]::bytea[])
      and revoked_at is null and (expires_at is null or expires_at > now())`
  const found = new Map(rows.map((row) => [row.hash, row]))
  return hashes.map((hash) => {
    const row = found.get(hash)
    return (
      row && {
        key_id: row.id,
        tenant_id: row.tenant_id,
        scopes: new Set(row.scopes),
        expires_in_ms: row.expires_in_ms,
      }
    )
  })
}

/** Records that a key was used, at most once a minute. */
export async function touchApiKey(sql: Sql, tenant_id: string, id: string): Promise<void> {
  await sql`
    update api_keys set last_used_at = now()
    where tenant_id = ${tenant_id} and id = ${id}
      and (last_used_at is null or last_used_at < now() - interval '1 minute')`
}

/** What is shown of a key. */
function keyColumns(sql: Sql | Tx): Fragment {
  return sql`id, name, last_four, scopes, created_at, last_used_at, expires_at, revoked_at`
}

function newSecret(tenant: KeyTenant): string {
  return `sk_live_${tenant.slug}_${Array.from({ length: 32 }, () => BASE62[randomInt(62)]).join('')}`
}

function hashOf(secret: string): Buffer {
  return createHash('sha256').update(secret).digest()
}

// API keys: `sk_live_<tenant>_<random32>` and, for test mode, `sk_test_<tenant>_<random32>`. They are shown once,
// stored as a hash, and limited to scopes.
import { createHash, randomInt } from 'node:crypto'
import { newId } from '#core/ids.ts'
import type { Fragment, Sql, Tx } from '#core/db.ts'
import type { Scope } from './areas.ts'
import type { Mode } from './modes.ts'
import { appending, type Actor } from './people/audit-log.ts'
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

/** The tenant and scopes of a valid key. `livemode`: false for a tenant of test mode. */
export type Credentials = { key_id: string; tenant_id: string; scopes: Set<Scope>; livemode: boolean }

/** The first part of the keys of each mode. */
export const KEY_PREFIXES: Readonly<Record<Mode, string>> = { live: 'sk_live_', test: 'sk_test_' }
const KEY_PATTERN = /^sk_(?:live|test)_[a-z0-9-]{1,40}_[0-9A-Za-z]{32}$/
const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

type KeyTenant = Pick<Tenant, 'id' | 'slug' | 'mode'>

/** A new key. `secret` is the full key, which is not stored and cannot be shown again. */
type CreatedApiKey = ApiKey & { secret: string; audit_entry: number }

/** Creates a key and writes an audit entry. */
export async function createApiKey(
  sql: Sql | Tx,
  tenant: KeyTenant,
  key: { name: string; scopes: Scope[]; expires_at: string | null },
  by: Actor,
): Promise<CreatedApiKey> {
  const [id, secret] = [newId(), newSecret(tenant)]
  const last_four = secret.slice(-4)
  const entry = {
    action: 'keys.create',
    subject: 'key',
    subject_id: id,
    details: { ...key, last_four },
  } as const
  const [row] = await sql<Omit<CreatedApiKey, 'secret'>[]>`
    with created as (
      insert into api_keys (tenant_id, id, name, hash, last_four, scopes, expires_at)
      values (${tenant.id}, ${id}, ${key.name}, ${hashOf(secret)}, ${last_four}, ${key.scopes}, ${key.expires_at})
      returning ${keyColumns(sql)}
    )
    select created.*, ${appending(sql, by, entry)} as audit_entry from created`
  return { ...row!, secret }
}

/** The keys of a tenant, newest first. With a `limit`, valid keys take precedence over revoked and expired keys. */
export async function listApiKeys(sql: Sql, tenant_id: string, limit = Infinity): Promise<ApiKey[]> {
  return await sql<ApiKey[]>`
    select * from (
      select ${keyColumns(sql)} from api_keys k
      where k.tenant_id = ${tenant_id} order by (${isValid(sql)}) desc, created_at desc
      limit ${limit === Infinity ? null : limit}::integer
    ) listed
    order by created_at desc`
}

/** The number of a tenant's valid keys. */
export async function countValidKeys(sql: Sql, tenant_id: string): Promise<number> {
  const [row] = await sql<{ count: number }[]>`
    select count(*) from api_keys k where k.tenant_id = ${tenant_id} and ${isValid(sql)}`
  return row!.count
}

/**
 * Replaces a key with a new key of the same name, scopes and expiry, and writes an audit entry. The old key works for
 * at most `grace_s` more seconds. Undefined when the tenant has no such valid key.
 */
export async function rotateApiKey(
  sql: Sql | Tx,
  tenant: KeyTenant,
  id: string,
  grace_s: number,
  by: Actor,
): Promise<CreatedApiKey | undefined> {
  const [new_key, secret] = [newId(), newSecret(tenant)]
  const entry = {
    action: 'keys.rotate',
    subject: 'key',
    subject_id: id,
    details: { grace_s, new_key },
  } as const
  const [row] = await sql<Omit<CreatedApiKey, 'secret'>[]>`
    with old as (
      select tenant_id, id, name, scopes, expires_at from api_keys
      where tenant_id = ${tenant.id} and id = ${id} and revoked_at is null
        and (expires_at is null or expires_at > now())
      for update
    ), expiring as (
      update api_keys k set expires_at = least(old.expires_at, now() + ${grace_s} * interval '1 second')
      from old where k.tenant_id = old.tenant_id and k.id = old.id
    ), created as (
      insert into api_keys (tenant_id, id, name, hash, last_four, scopes, expires_at)
      select tenant_id, ${new_key}, name, ${hashOf(secret)}, ${secret.slice(-4)}, scopes, expires_at from old
      returning ${keyColumns(sql)}
    )
    select created.*, ${appending(sql, by, entry)} as audit_entry from created`
  return row && { ...row, secret }
}

/**
 * Revokes a key and returns the number of the audit entry. All processes refuse the key within a second. Undefined when
 * the tenant has no such key, or it is revoked already.
 */
export async function revokeApiKey(
  sql: Sql | Tx,
  tenant_id: string,
  id: string,
  by: Actor,
): Promise<number | undefined> {
  const entry = { action: 'keys.revoke', subject: 'key', subject_id: id } as const
  const [revoked] = await sql<{ seq: number }[]>`
    with revoked as (
      update api_keys set revoked_at = now()
      where tenant_id = ${tenant_id} and id = ${id} and revoked_at is null
      returning id
    )
    select ${appending(sql, by, entry)} as seq from revoked`
  return revoked?.seq
}

function isValid(sql: Sql): Fragment {
  return sql`k.revoked_at is null and (k.expires_at is null or k.expires_at > now())`
}

/** Whether a secret has the format of a key. Other secrets need no lookup. */
export function hasKeyFormat(secret: string): boolean {
  return KEY_PATTERN.test(secret)
}

type ExpiringCredentials = Credentials & { expires_in_ms: number | null }

/** The credentials of a key, or undefined when it is unknown, revoked or expired. */
export async function findCredentials(sql: Sql, secret: string): Promise<ExpiringCredentials | undefined> {
  return (await findManyCredentials(sql, [secret]))[0]
}

/** The credentials of several keys, in the order of `secrets`. */
export async function findManyCredentials(
  sql: Sql,
  secrets: string[],
): Promise<(ExpiringCredentials | undefined)[]> {
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
  return hashes.map((hash, nth) => {
    const row = found.get(hash)
    return (
      row && {
        key_id: row.id,
        tenant_id: row.tenant_id,
        scopes: new Set(row.scopes),
        // The prefix follows from the mode of the tenant, which never changes, and is part of what was hashed.
        livemode: secrets[nth]!.startsWith(KEY_PREFIXES.live),
        expires_in_ms: row.expires_in_ms,
      }
    )
  })
}

/** Records the use of a key, at most once a minute. */
export async function recordKeyUse(sql: Sql, tenant_id: string, id: string): Promise<void> {
  await sql`
    update api_keys set last_used_at = now()
    where tenant_id = ${tenant_id} and id = ${id}
      and (last_used_at is null or last_used_at < now() - interval '1 minute')`
}

/** The columns of an `ApiKey`. */
function keyColumns(sql: Sql | Tx): Fragment {
  return sql`id, name, last_four, scopes, created_at, last_used_at, expires_at, revoked_at`
}

function newSecret(tenant: KeyTenant): string {
  return `${KEY_PREFIXES[tenant.mode]}${tenant.slug}_${Array.from({ length: 32 }, () => BASE62[randomInt(62)]).join('')}`
}

function hashOf(secret: string): Buffer {
  return createHash('sha256').update(secret).digest()
}

// Tenants: every row belongs to one. A tenant can have a twin for test mode, with the same slug.
import { z } from 'zod'
import { newId, SYSTEM_TENANT_ID, SYSTEM_TWIN_ID } from '#core/ids.ts'
import type { Fragment, Sql, Tx } from '#core/db.ts'
import type { Mode } from './modes.ts'
import { appending, type Actor } from './people/audit-log.ts'
import { parseTenantName } from './tenant-names.ts'

/** `contact_email`: the address for emails about problems of the tenant; null: no emails. */
export type Tenant = { id: string; slug: string; name: string; contact_email: string | null; mode: Mode }

/** The live tenant called `slug`; created if there is none. */
export async function ensureTenant(sql: Sql, slug: string, name = slug): Promise<Tenant> {
  await sql`
    insert into tenants (id, slug, name) values (${newId()}, ${slug}, ${name}) on conflict (slug, mode) do nothing`
  const tenant = await findTenant(sql, slug, 'live')
  if (tenant === undefined) throw new Error(`the tenant ${slug} was deleted while it was being created`)
  return tenant
}

/**
 * The twin of a live tenant; created on first use, without a contact: nobody has to act for a test. Errors: the tenant
 * is a twin itself, or the system's own.
 */
export async function ensureTwin(sql: Sql, { id, slug }: Pick<Tenant, 'id' | 'slug'>): Promise<Tenant> {
  await sql`
    insert into tenants (id, slug, name, mode, twin_id, email_domains, sms_senders)
    select ${newId()}, slug, name, 'test', id, email_domains, sms_senders from tenants
    where id = ${id} and mode = 'live' and id <> ${SYSTEM_TENANT_ID}
    on conflict do nothing`
  const [twin] = await sql<Tenant[]>`
    select ${tenantColumns(sql)} from tenants where twin_id = ${id} and id <> ${SYSTEM_TWIN_ID}`
  if (twin === undefined) throw new Error(`the tenant ${slug} can have no twin`)
  return twin
}

/** The tenant of this slug and mode, or undefined. */
export async function findTenant(sql: Sql, slug: string, mode: Mode): Promise<Tenant | undefined> {
  const [tenant] = await sql<Tenant[]>`
    select ${tenantColumns(sql)} from tenants where slug = ${slug} and mode = ${mode}`
  return tenant
}

function tenantColumns(sql: Sql): Fragment {
  return sql`id, slug, name, contact_email, mode`
}

/** The id of the tenant with this name, or with this id; undefined if there is none. */
export async function findTenantId(sql: Sql | Tx, name_or_id: string): Promise<string | undefined> {
  const { data: id = null } = z.uuid().safeParse(name_or_id)
  const { slug, mode } = parseTenantName(name_or_id)
  const [found] = await sql<{ id: string }[]>`
    select id from tenants where (slug = ${slug} and mode = ${mode}) or id = ${id}`
  return found?.id
}

/** The slugs of tenants by id; missing ids are omitted. */
export async function findSlugs(sql: Sql, ids: readonly string[]): Promise<Map<string, string>> {
  const rows = await sql<Pick<Tenant, 'id' | 'slug'>[]>`
    select id, slug from tenants where id = any(${[...ids]}::uuid[])`
  return new Map(rows.map(({ id, slug }) => [id, slug]))
}

/** Live tenants whose slug or name begins with this text, by slug, except the system's own tenant. */
export async function listTenants(
  sql: Sql,
  search: string,
  limit: number,
): Promise<Pick<Tenant, 'id' | 'slug' | 'name'>[]> {
  const pattern = `${search.replaceAll(/[\\%_]/g, String.raw`\$&`)}%`
  return await sql`
    select id, slug, name from tenants
    where id <> ${SYSTEM_TENANT_ID} and mode = 'live' and (slug like ${pattern} or name ilike ${pattern})
    order by slug limit ${limit}`
}

/** The maximum number of email domains of a tenant. */
export const MAX_EMAIL_DOMAINS = 100

/** The domains from which a tenant may send email; null: the domains of the installation. */
export async function findEmailDomains(sql: Sql, id: string): Promise<string[] | null> {
  const [tenant] = await sql<{ email_domains: string[] | null }[]>`
    select email_domains from tenants where id = ${id}`
  return tenant?.email_domains ?? null
}

/**
 * The SMS senders that a tenant may use; the first is the default. Null: any sender, by default that of the
 * installation.
 */
export async function findSmsSenders(sql: Sql, id: string): Promise<string[] | null> {
  const [tenant] = await sql<{ sms_senders: string[] | null }[]>`
    select sms_senders from tenants where id = ${id}`
  return tenant?.sms_senders ?? null
}

/** Sets the SMS senders of a tenant and writes an audit entry. */
export async function setSmsSenders(
  sql: Sql,
  id: string,
  sms_senders: string[] | null,
  by: Actor,
): Promise<void> {
  const entry = {
    action: 'tenants.set_sms_senders',
    subject: 'tenant',
    subject_id: id,
    details: { sms_senders },
  } as const
  await sql`
    with changed as (update tenants set sms_senders = ${sms_senders} where id = ${id} returning id)
    select ${appending(sql, by, entry)} from changed`
}

/** Sets the email domains of a tenant, in DNS form, and writes an audit entry. Returns the entry's number. */
export async function setEmailDomains(
  sql: Sql | Tx,
  id: string,
  email_domains: string[] | null,
  by: Actor,
): Promise<number> {
  const entry = {
    action: 'tenants.set_email_domains',
    subject: 'tenant',
    subject_id: id,
    details: { email_domains },
  } as const
  const [entry_row] = await sql<{ seq: number }[]>`
    with changed as (update tenants set email_domains = ${email_domains} where id = ${id} returning id)
    select ${appending(sql, by, entry)} as seq from changed`
  return entry_row!.seq
}

/**
 * Replaces the email domains with the result of `next`, which gets the current domains. Concurrent changes are
 * serialized. If `next` throws, nothing changes.
 */
export async function changeEmailDomains(
  sql: Sql,
  id: string,
  next: (current: string[] | null) => string[] | null,
  by: Actor,
): Promise<number> {
  return await sql.begin(async (tx) => {
    const [tenant] = await tx<{ email_domains: string[] | null }[]>`
      select email_domains from tenants where id = ${id} for update`
    return await setEmailDomains(tx, id, next(tenant!.email_domains), by)
  })
}

/** Sets a tenant's contact, a bare address or null, and writes an audit entry. */
export async function setTenantContact(
  sql: Sql,
  id: string,
  contact_email: string | null,
  by: Actor,
): Promise<void> {
  const entry = {
    action: 'tenants.set_contact',
    subject: 'tenant',
    subject_id: id,
    details: { contact_email },
  } as const
  await sql`
    with changed as (update tenants set contact_email = ${contact_email} where id = ${id} returning id)
    select ${appending(sql, by, entry)} from changed`
}

// Tenants: every row belongs to one.
import { newId, SYSTEM_TENANT_ID } from '#core/ids.ts'
import type { Sql, Tx } from '#core/db.ts'
import { appending, type Actor } from './people/audit-log.ts'

/** `contact_email`: whom we tell by email of what the tenant should look at; null: nobody. */
export type Tenant = { id: string; slug: string; name: string; contact_email: string | null }

/** The tenant called `slug`; created if there is none. */
export async function ensureTenant(sql: Sql, slug: string, name = slug): Promise<Tenant> {
  await sql`insert into tenants (id, slug, name) values (${newId()}, ${slug}, ${name}) on conflict (slug) do nothing`
  const tenant = await findTenant(sql, slug)
  if (tenant === undefined) throw new Error(`the tenant ${slug} vanished`)
  return tenant
}

/** The tenant called `slug`, or undefined. */
export async function findTenant(sql: Sql, slug: string): Promise<Tenant | undefined> {
  const [tenant] = await sql<Tenant[]>`select id, slug, name, contact_email from tenants where slug = ${slug}`
  return tenant
}

/** Tenants whose slug or name begins with this text, by slug; the system's own is none. */
export async function listTenants(
  sql: Sql,
  search: string,
  limit: number,
): Promise<Pick<Tenant, 'id' | 'slug' | 'name'>[]> {
  const pattern = `${search.replaceAll(/[\\%_]/g, String.raw`\$&`)}%`
  return await sql`
    select id, slug, name from tenants
    where id <> ${SYSTEM_TENANT_ID} and (slug like ${pattern} or name ilike ${pattern}) order by slug limit ${limit}`
}

/** A tenant's list of domains has at most so many. */
export const MAX_EMAIL_DOMAINS = 100

/** The domains of which a tenant may be the sender of email; null: those of the installation. */
export async function findEmailDomains(sql: Sql, id: string): Promise<string[] | null> {
  const [tenant] = await sql<{ email_domains: string[] | null }[]>`
    select email_domains from tenants where id = ${id}`
  return tenant?.email_domains ?? null
}

/** The senders of SMS that a tenant may use, the first one by default; null: any, and that of the installation by default. */
export async function findSmsSenders(sql: Sql, id: string): Promise<string[] | null> {
  const [tenant] = await sql<{ sms_senders: string[] | null }[]>`
    select sms_senders from tenants where id = ${id}`
  return tenant?.sms_senders ?? null
}

/** Sets these, on record. */
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

/** Sets the domains of its email, on record, and returns the number of the entry; each as name servers know it. */
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
  const [set] = await sql<{ seq: number }[]>`
    with changed as (update tenants set email_domains = ${email_domains} where id = ${id} returning id)
    select ${appending(sql, by, entry)} as seq from changed`
  return set!.seq
}

/** Sets what `next` makes of them; two changes at once come one after the other. What it throws changes nothing. */
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

/** Sets whom a tenant is told by, on record; null: nobody. A bare address. */
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

// Tenants: every row belongs to one.
import { newId } from '#core/ids.ts'
import type { Sql } from '#core/db.ts'

export type Tenant = { id: string; slug: string; name: string }

/** The tenant called `slug`; created if there is none. */
export async function ensureTenant(sql: Sql, slug: string, name = slug): Promise<Tenant> {
  await sql`insert into tenants (id, slug, name) values (${newId()}, ${slug}, ${name}) on conflict (slug) do nothing`
  const tenant = await findTenant(sql, slug)
  if (tenant === undefined) throw new Error(`the tenant ${slug} vanished`)
  return tenant
}

/** The tenant called `slug`, or undefined. */
export async function findTenant(sql: Sql, slug: string): Promise<Tenant | undefined> {
  const [tenant] = await sql<Tenant[]>`select id, slug, name from tenants where slug = ${slug}`
  return tenant
}

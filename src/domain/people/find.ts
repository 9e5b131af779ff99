// Reads the user of a session and the members of a tenant.
import type { Sql } from '#core/db.ts'
import { SYSTEM_TENANT_ID } from '#core/ids.ts'
import type { MemberRole } from './role.ts'

/**
 * The user of a session and the selected tenant. An operator may select any live tenant except the system's without
 * being a member.
 */
export type SignedIn = {
  session_id: string
  user_id: string
  name: string
  email: string
  two_factor_enabled: boolean
  is_operator: boolean
  /** Whether the user may select more than one tenant. */
  has_several_tenants: boolean
  tenant: { id: string; slug: string; name: string; role: MemberRole | 'operator' } | null
}

/**
 * The user of a session and the tenant that is selected in it; the tenant is null if the user no longer has access to
 * it. If no tenant is selected: the first tenant of which the user is a member.
 */
export async function findSignedIn(sql: Sql, session_id: string): Promise<SignedIn | undefined> {
  const [found] = await sql<SignedIn[]>`
    select s.id as session_id, u.id as user_id, u.name, u.email, u.two_factor_enabled, u.is_operator,
      u.is_operator or 1 < (
        select count(*) from members m join tenants t on t.id = m.tenant_id
          where m.user_id = u.id) as has_several_tenants,
      case when t.id is not null
        then json_build_object('id', t.id, 'slug', t.slug, 'name', t.name, 'role', t.role) end as tenant
    from user_sessions s join users u on u.id = s.user_id
    left join lateral (
      select t.id, t.slug, t.name, coalesce(m.role, 'operator') as role
      from tenants t left join members m on m.tenant_id = t.id and m.user_id = u.id
      where t.mode = 'live' and (
        (t.id = s.selected_tenant_id and (m.user_id is not null or (u.is_operator and t.id <> ${SYSTEM_TENANT_ID})))
        or (s.selected_tenant_id is null and m.user_id is not null))
      order by m.created_at, t.id limit 1
    ) t on true
    where s.id = ${session_id}`
  return found
}

/** The tenants that a user is a member of. */
export async function findTenantsOf(
  sql: Sql,
  user_id: string,
): Promise<{ id: string; slug: string; name: string; role: MemberRole }[]> {
  return await sql`
    select t.id, t.slug, t.name, m.role from members m join tenants t on t.id = m.tenant_id
    where m.user_id = ${user_id} order by m.created_at, t.id`
}

/**
 * Selects another tenant in a session: a member selects one of their own tenants, an operator any live tenant except
 * the system's. False if the user may not select it.
 */
export async function selectTenant(sql: Sql, session_id: string, tenant_id: string): Promise<boolean> {
  const { count } = await sql`
    update user_sessions s set selected_tenant_id = ${tenant_id}
    from users u
    where s.id = ${session_id} and u.id = s.user_id
      and exists (select from tenants where id = ${tenant_id} and mode = 'live')
      and ((u.is_operator and ${tenant_id}::uuid <> ${SYSTEM_TENANT_ID}) or exists (
        select from members m where m.tenant_id = ${tenant_id} and m.user_id = u.id))`
  return count > 0
}

export type Member = {
  user_id: string
  name: string
  email: string
  /** Whether the member has proved that they receive email at this address. */
  email_verified: boolean
  role: MemberRole
  two_factor_enabled: boolean
  created_at: string
}

/** The members of a tenant, in the order in which they joined. */
export async function findMembers(sql: Sql, tenant_id: string): Promise<Member[]> {
  return await sql<Member[]>`
    select m.user_id, u.name, u.email, u.email_verified, m.role, u.two_factor_enabled, m.created_at
    from members m join users u on u.id = m.user_id
    where m.tenant_id = ${tenant_id} order by m.created_at, m.user_id`
}

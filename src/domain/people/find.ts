// Reads the user of a session and the members of a tenant.
import type { Sql } from '#core/db.ts'
import { SYSTEM_TENANT_ID } from '#core/ids.ts'
import type { Mode } from '../modes.ts'
import type { MemberRole } from './role.ts'

/**
 * The user of a session and the tenant of a request. A session selects a live tenant, and each request names its mode:
 * in test mode, its tenant is the twin. Members and roles are those of the live tenant. An operator may select any live
 * tenant except the system's without being a member.
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
  /** `live_id`: the id of the live tenant, which is `id` in live mode. */
  tenant: {
    id: string
    live_id: string
    slug: string
    name: string
    mode: Mode
    role: MemberRole | 'operator'
  } | null
  /**
   * The id of the selected tenant if the request is of test mode and there is no twin yet. Then `tenant` is null. The
   * system's tenant has no twin.
   */
  tenant_without_twin: string | null
}

/**
 * The user of a session and the tenant that is selected in it, or its twin; the tenant is null if the user no longer
 * has access to it. If no tenant is selected: the first tenant of which the user is a member.
 */
export async function findSignedIn(sql: Sql, session_id: string, mode: Mode): Promise<SignedIn | undefined> {
  const of_mode =
    mode === 'live'
      ? sql`of_mode.id = live.id`
      : sql`of_mode.twin_id = live.id and live.id <> ${SYSTEM_TENANT_ID}`
  const [found] = await sql<SignedIn[]>`
    select s.id as session_id, u.id as user_id, u.name, u.email, u.two_factor_enabled, u.is_operator,
      u.is_operator or 1 < (
        select count(*) from members m join tenants t on t.id = m.tenant_id
          where m.user_id = u.id) as has_several_tenants,
      case when of_mode.id is not null then json_build_object('id', of_mode.id, 'live_id', live.id, 'slug', live.slug,
        'name', live.name, 'mode', ${mode}::text, 'role', live.role) end as tenant,
      case when of_mode.id is null and live.id <> ${SYSTEM_TENANT_ID} then live.id end as tenant_without_twin
    from user_sessions s join users u on u.id = s.user_id
    left join lateral (
      select t.id, t.slug, t.name, coalesce(m.role, 'operator') as role
      from tenants t left join members m on m.tenant_id = t.id and m.user_id = u.id
      where t.mode = 'live' and (
        (s.selected_tenant_id is null and m.user_id is not null) or (t.id = s.selected_tenant_id
          and (m.user_id is not null or (u.is_operator and t.id <> ${SYSTEM_TENANT_ID}))))
      order by m.created_at, t.id limit 1
    ) live on true
    left join tenants of_mode on ${of_mode}
    where s.id = ${session_id}`
  return found
}

/** The tenants that a user is a member of. `twin_id`: the id of the twin; null if there is none yet. */
export async function findTenantsOf(
  sql: Sql,
  user_id: string,
): Promise<{ id: string; twin_id: string | null; slug: string; name: string; role: MemberRole }[]> {
  return await sql`
    select t.id, twin.id as twin_id, t.slug, t.name, m.role
    from members m join tenants t on t.id = m.tenant_id left join tenants twin on twin.twin_id = t.id
    where m.user_id = ${user_id} order by m.created_at, t.id`
}

/**
 * Selects another tenant in a session: a member selects one of their own tenants, an operator any tenant except the
 * system's. Returns the live tenant, which is selected also if `tenant_id` is a twin, and the mode of `tenant_id`.
 * Undefined if the user may not select it.
 */
export async function selectTenant(
  sql: Sql,
  session_id: string,
  tenant_id: string,
): Promise<{ id: string; slug: string; mode: Mode } | undefined> {
  const [selected] = await sql<{ id: string; slug: string; mode: Mode }[]>`
    update user_sessions s set selected_tenant_id = live.id
    from users u, tenants requested join tenants live on live.id = coalesce(requested.twin_id, requested.id)
    where s.id = ${session_id} and u.id = s.user_id and requested.id = ${tenant_id}
      and ((u.is_operator and live.id <> ${SYSTEM_TENANT_ID}) or exists (
        select from members m where m.tenant_id = live.id and m.user_id = u.id))
    returning live.id, live.slug, requested.mode`
  return selected
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

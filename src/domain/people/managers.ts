// Who may manage the members of a tenant, looked up in the transaction of what they change.
import type { Tx } from '#core/db.ts'
import { ROLES, type MemberRole } from './role.ts'

/**
 * The role of a user, who cannot lose it before the transaction is over. Of two owners who each remove the other, the
 * second is none any more. Null: no member.
 */
export async function lockRole(
  tx: Tx,
  tenant_id: string,
  user_id: string | null,
): Promise<MemberRole | null> {
  await tx`
    select from members where tenant_id = ${tenant_id} and role in ('owner', 'admin') order by user_id for update`
  const [member] = await tx<{ role: MemberRole }[]>`
    select role from members where tenant_id = ${tenant_id} and user_id = ${user_id}`
  return member?.role ?? null
}

/** Why somebody of this role may not manage members, or members of that role; null when they may. */
export function refusalOf(
  by: MemberRole | 'operator' | null,
  role: MemberRole,
): 'no_manager' | 'owners_only' | null {
  if (by !== 'owner' && by !== 'admin') return 'no_manager'
  return role === 'owner' && by !== 'owner' ? 'owners_only' : null
}

/** The roles that somebody of this role may give, change and take away. */
export function assignableRoles(by: MemberRole | 'operator' | null): MemberRole[] {
  return ROLES.filter((role) => refusalOf(by, role) === null)
}

// The rights to manage members, read in the transaction of the change.
import type { Tx } from '#core/db.ts'
import { ROLES, type MemberRole } from './role.ts'

/**
 * The role of a user, locked until the end of the transaction: if two owners remove each other at the same time, the
 * second has already lost the role. Null: not a member.
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

/** The reason why this role may not manage members, or members with `role`; null if it may. */
export function refusalOf(
  by: MemberRole | 'operator' | null,
  role: MemberRole,
): 'no_manager' | 'owners_only' | null {
  if (by !== 'owner' && by !== 'admin') return 'no_manager'
  return role === 'owner' && by !== 'owner' ? 'owners_only' : null
}

/** The roles that this role may assign, change and remove. */
export function assignableRoles(by: MemberRole | 'operator' | null): MemberRole[] {
  return ROLES.filter((role) => refusalOf(by, role) === null)
}

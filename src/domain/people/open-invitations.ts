// Conditions of open invitations, and their revocation when the sender loses rights.
import type { Fragment, Sql, Tx } from '#core/db.ts'
import { assignableRoles } from './managers.ts'
import type { MemberRole } from './role.ts'

/**
 * Whether a row of `invitations` is neither accepted nor revoked. An address has at most one such invitation in a
 * tenant.
 */
export function isUnused(sql: Sql | Tx): Fragment {
  return sql`(accepted_at is null and revoked_at is null)`
}

/** Whether the link of a row of `invitations` still works. */
export function isOpenInvitation(sql: Sql | Tx): Fragment {
  return sql`(${isUnused(sql)} and expires_at > now())`
}

/** Revokes a member's invitations to roles that the new role may not assign; null: no longer a member. */
export async function revokeInvitationsOf(
  tx: Tx,
  { tenant_id, user_id, role }: { tenant_id: string; user_id: string; role: MemberRole | null },
): Promise<void> {
  await tx`
    update invitations set revoked_at = now()
    where tenant_id = ${tenant_id} and invited_by = ${user_id} and ${isUnused(tx)}
      and role <> all (${assignableRoles(role)})`
}

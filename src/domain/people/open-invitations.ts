// Which invitations can still be accepted, and what ends those that somebody sent.
import type { Fragment, Sql, Tx } from '#core/db.ts'
import { assignableRoles } from './managers.ts'
import type { MemberRole } from './role.ts'

/** Of a row of `invitations`: neither accepted nor revoked. An address has at most one such in a tenant. */
export function isUnused(sql: Sql | Tx): Fragment {
  return sql`(accepted_at is null and revoked_at is null)`
}

/** Of a row of `invitations`: its link still works. */
export function isOpenInvitation(sql: Sql | Tx): Fragment {
  return sql`(${isUnused(sql)} and expires_at > now())`
}

/** Ends what a member sent and may give no more, now that they are this; null: no member. */
export async function revokeInvitationsOf(
  tx: Tx,
  { tenant_id, user_id, role }: { tenant_id: string; user_id: string; role: MemberRole | null },
): Promise<void> {
  await tx`
    update invitations set revoked_at = now()
    where tenant_id = ${tenant_id} and invited_by = ${user_id} and ${isUnused(tx)}
      and role <> all (${assignableRoles(role)})`
}

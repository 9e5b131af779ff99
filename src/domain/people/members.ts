// Changes the members of a tenant, each change with an audit entry. A tenant always has an owner.
import type { Sql, Tx } from '#core/db.ts'
import { appendAuditEntry, type Actor, type AuditAct } from './audit-log.ts'
import { lockRole, refusalOf } from './managers.ts'
import { revokeInvitationsOf } from './open-invitations.ts'
import type { MemberRole } from './role.ts'

/** `by`: the actor, who may be the member. */
export type MemberChange = { tenant_id: string; user_id: string; by: Actor }
/** `changed`: the number of the audit entry. `no_manager`: the actor has lost the right meanwhile. */
export type MemberResult =
  | { changed: number }
  | { refused: 'no_member' | 'no_manager' | 'owners_only' | 'last_owner' }

/** Makes a user a member; an existing member keeps the role. */
export async function addMember(
  sql: Sql | Tx,
  { tenant_id, user_id, role }: { tenant_id: string; user_id: string; role: MemberRole },
): Promise<void> {
  await sql`
    insert into members (tenant_id, user_id, role) values (${tenant_id}, ${user_id}, ${role})
    on conflict (tenant_id, user_id) do nothing`
}

/** Changes the role of a member. Only owners change owners or appoint them. */
export async function changeRole(
  sql: Sql,
  change: MemberChange & { role: MemberRole },
): Promise<MemberResult> {
  const { tenant_id, user_id, role } = change
  return await changeMember(sql, change, role, async (tx) => {
    await tx`update members set role = ${role} where tenant_id = ${tenant_id} and user_id = ${user_id}`
    // Revokes the member's invitations to roles that the member may no longer assign.
    await revokeInvitationsOf(tx, change)
    return { action: 'members.change_role', details: { role } }
  })
}

/** Removes a member. */
export async function removeMember(sql: Sql, change: MemberChange): Promise<MemberResult> {
  const { tenant_id, user_id } = change
  return await changeMember(sql, change, null, async (tx) => {
    await tx`delete from members where tenant_id = ${tenant_id} and user_id = ${user_id}`
    // A removed member cannot return through an invitation that they sent themselves.
    await revokeInvitationsOf(tx, { tenant_id, user_id, role: null })
    return { action: 'members.remove' }
  })
}

async function changeMember(
  sql: Sql,
  { tenant_id, user_id, by }: MemberChange,
  role: MemberRole | null,
  change: (tx: Tx) => Promise<AuditAct>,
): Promise<MemberResult> {
  return await sql.begin(async (tx): Promise<MemberResult> => {
    const by_role = await lockRole(tx, tenant_id, by.actor_id ?? null)
    const [member] = await tx<{ email: string; role: MemberRole; other_owners: boolean }[]>`
      select u.email, m.role, exists (
          select from members o where o.tenant_id = m.tenant_id and o.role = 'owner' and o.user_id <> m.user_id
        ) as other_owners
      from members m join users u on u.id = m.user_id
      where m.tenant_id = ${tenant_id} and m.user_id = ${user_id}`
    if (member === undefined) return { refused: 'no_member' }
    const refused = refusalOf(by_role, role === 'owner' ? role : member.role)
    if (refused !== null) return { refused }
    if (member.role === 'owner' && role !== 'owner' && !member.other_owners) return { refused: 'last_owner' }
    const { details, ...act } = await change(tx)
    return {
      changed: await appendAuditEntry(tx, by, {
        ...act,
        subject: 'member',
        subject_id: user_id,
        details: { ...details, email: member.email, was: member.role },
      }),
    }
  })
}

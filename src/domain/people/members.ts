// Changes who the members of a tenant are, each change with its entry in the audit log. A tenant keeps an owner.
import type { Sql, Tx } from '#core/db.ts'
import { appendAuditEntry, type Actor, type AuditAct } from './audit-log.ts'
import type { MemberRole } from './role.ts'

/** Who changes: their role, and their entry in the audit log. */
export type MemberChange = { tenant_id: string; user_id: string; by_role: MemberRole; by: Actor }
/** `changed`: the number of the audit entry. */
export type MemberResult = { changed: number } | { refused: 'no_member' | 'owners_only' | 'last_owner' }

/** Gives a member another role. Only owners change owners, and make some. */
export async function changeRole(
  sql: Sql,
  change: MemberChange & { role: MemberRole },
): Promise<MemberResult> {
  const { tenant_id, user_id, role } = change
  return await changing(sql, change, role, async (tx) => {
    await tx`update members set role = ${role} where tenant_id = ${tenant_id} and user_id = ${user_id}`
    return { action: 'members.change_role', details: { role } }
  })
}

/** Removes a member. What they see next is a tenant less. */
export async function removeMember(sql: Sql, change: MemberChange): Promise<MemberResult> {
  const { tenant_id, user_id } = change
  return await changing(sql, change, null, async (tx) => {
    await tx`delete from members where tenant_id = ${tenant_id} and user_id = ${user_id}`
    return { action: 'members.remove' }
  })
}

async function changing(
  sql: Sql,
  { tenant_id, user_id, by_role, by }: MemberChange,
  role: MemberRole | null,
  change: (tx: Tx) => Promise<AuditAct>,
): Promise<MemberResult> {
  return await sql.begin(async (tx): Promise<MemberResult> => {
    // Two owners who each remove the other come one after the other.
    await tx`select from tenants where id = ${tenant_id} for no key update`
    const [member] = await tx<{ email: string; role: MemberRole; other_owners: boolean }[]>`
      select u.email, m.role, exists (
        select from members o where o.tenant_id = m.tenant_id and o.role = 'owner' and o.user_id <> m.user_id
      ) as other_owners
      from members m join users u on u.id = m.user_id
      where m.tenant_id = ${tenant_id} and m.user_id = ${user_id}`
    if (member === undefined) return { refused: 'no_member' }
    const of_owner = member.role === 'owner' || role === 'owner'
    if (of_owner && by_role !== 'owner') return { refused: 'owners_only' }
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

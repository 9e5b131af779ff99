// Invitations to become a member: a link with a token, of which only a hash is kept.
import { createHash, randomBytes } from 'node:crypto'
import type { Sql, Tx } from '#core/db.ts'
import { newId } from '#core/ids.ts'
import { appendAuditEntry, type Actor } from './audit-log.ts'
import type { MemberRole } from './role.ts'

const DAYS = 7

export type Invitation = {
  id: string
  email: string
  role: MemberRole
  invited_by: string | null
  created_at: string
  expires_at: string
}

/**
 * Invites an address; an open invitation of the same address ends. `token` stands in the link, and is shown this once.
 * Undefined when the address is a member's. `and`: what else happens in the same transaction, such as the email.
 */
export async function invite(
  sql: Sql,
  { tenant_id, email, role, by }: { tenant_id: string; email: string; role: MemberRole; by: Actor },
  and: (tx: Tx, invitation: { id: string; token: string }) => Promise<void>,
): Promise<{ id: string; token: string; expires_at: string; audit_entry: number } | undefined> {
  return await sql.begin(async (tx) => {
    const members = await tx`
      select from members m join users u on u.id = m.user_id
      where m.tenant_id = ${tenant_id} and u.email = ${email}`
    if (members.length > 0) return undefined
    const [id, token] = [newId(), randomBytes(32).toString('base64url')]
    await tx`
      update invitations set revoked_at = now()
      where tenant_id = ${tenant_id} and email = ${email} and accepted_at is null and revoked_at is null`
    const [row] = await tx<{ expires_at: string }[]>`
      insert into invitations (tenant_id, id, email, role, token_hash, invited_by, expires_at)
      values (${tenant_id}, ${id}, ${email}, ${role}, ${hashOf(token)}, ${by.actor_id},
        now() + ${DAYS} * interval '1 day')
      returning expires_at`
    await and(tx, { id, token })
    const act = { action: 'members.invite', subject: 'invitation', subject_id: id, details: { email, role } }
    return { id, token, expires_at: row!.expires_at, audit_entry: await appendAuditEntry(tx, by, act) }
  })
}

/** Open invitations of a tenant, newest first. */
export async function findInvitations(sql: Sql, tenant_id: string): Promise<Invitation[]> {
  return await sql<Invitation[]>`
    select i.id, i.email, i.role, u.email as invited_by, i.created_at, i.expires_at
    from invitations i left join users u on u.id = i.invited_by
    where i.tenant_id = ${tenant_id} and i.accepted_at is null and i.revoked_at is null and i.expires_at > now()
    order by i.created_at desc`
}

/** Ends an open invitation; undefined when there is none. Only owners end one of an owner. */
export async function revokeInvitation(
  sql: Sql,
  { tenant_id, id, by, by_role }: { tenant_id: string; id: string; by: Actor; by_role: MemberRole },
): Promise<number | undefined> {
  return await sql.begin(async (tx) => {
    const [ended] = await tx<{ email: string }[]>`
      update invitations set revoked_at = now()
      where tenant_id = ${tenant_id} and id = ${id} and accepted_at is null and revoked_at is null
        and (role <> 'owner' or ${by_role} = 'owner')
      returning email`
    if (ended === undefined) return undefined
    return await appendAuditEntry(tx, by, {
      action: 'members.revoke_invitation',
      subject: 'invitation',
      subject_id: id,
      details: { email: ended.email },
    })
  })
}

export type OpenInvitation = {
  tenant_id: string
  id: string
  tenant: string
  email: string
  role: MemberRole
  /** Whether the address has a user already, who signs in to accept. */
  has_user: boolean
}

/** What the link of an invitation leads to; undefined when it is not open. */
export async function findOpenInvitation(sql: Sql | Tx, token: string): Promise<OpenInvitation | undefined> {
  const [found] = await sql<OpenInvitation[]>`
    select i.tenant_id, i.id, t.name as tenant, i.email, i.role,
      exists (select from users u where u.email = i.email) as has_user
    from invitations i join tenants t on t.id = i.tenant_id
    where i.token_hash = ${hashOf(token)} and i.accepted_at is null and i.revoked_at is null
      and i.expires_at > now()`
  return found
}

/**
 * Makes the invited user a member. `user_id`: of a user that the caller makes in the same transaction, or who is signed
 * in. Undefined when the invitation is not open any more.
 */
export async function acceptInvitation(
  tx: Tx,
  { token, user_id, by }: { token: string; user_id: string; by: Omit<Actor, 'tenant_id'> },
): Promise<{ tenant_id: string } | undefined> {
  const [accepted] = await tx<{ tenant_id: string; id: string; role: MemberRole }[]>`
    update invitations set accepted_at = now()
    where token_hash = ${hashOf(token)} and accepted_at is null and revoked_at is null and expires_at > now()
    returning tenant_id, id, role`
  if (accepted === undefined) return undefined
  const { tenant_id, id, role } = accepted
  await tx`
    insert into members (tenant_id, user_id, role) values (${tenant_id}, ${user_id}, ${role})
    on conflict (tenant_id, user_id) do nothing`
  await appendAuditEntry(
    tx,
    { ...by, tenant_id },
    { action: 'members.join', subject: 'invitation', subject_id: id, details: { role } },
  )
  return { tenant_id }
}

function hashOf(token: string): Buffer {
  return createHash('sha256').update(token).digest()
}

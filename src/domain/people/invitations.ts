// Invitations to become a member: a link with a token, which is stored as a hash.
import { createHash, randomBytes } from 'node:crypto'
import type { Sql, Tx } from '#core/db.ts'
import { AppError } from '#core/errors.ts'
import { newId } from '#core/ids.ts'
import { appendAuditEntry, type Actor } from './audit-log.ts'
import { lockRole, refusalOf } from './managers.ts'
import { addMember } from './members.ts'
import { isOpenInvitation, isUnused } from './open-invitations.ts'
import type { MemberRole } from './role.ts'

const EXPIRES_AFTER_DAYS = 7
/** Daily limits: invitations of a tenant, of a tenant to one address, and emails to an address from all tenants. */
const DAILY_LIMITS = { tenant: 50, address: 5, mailed: 5 }

export type Invitation = {
  id: string
  email: string
  role: MemberRole
  invited_by: string | null
  created_at: string
  expires_at: string
}

type InvitationRequest = { tenant_id: string; email: string; role: MemberRole; by: Actor; mailed: boolean }
/**
 * `member`: the address belongs to a member. `no_manager`, `owners_only`: the inviting user has lost the right
 * meanwhile.
 */
export type InviteResult =
  | { id: string; token: string; expires_at: string; mailed: boolean; audit_entry: number }
  | { refused: 'member' | 'no_manager' | 'owners_only' }

/**
 * Invites an address and revokes an earlier open invitation to it. `token` is part of the link and returned only this
 * once. `mailed` true: the link is emailed, unless the address has reached its limit of emails. Otherwise the link is
 * shown. `writeEmail` writes the email in the same transaction. Throws `rate_limited` if the tenant invites too many
 * addresses, or one address too often. Commands, which have no `actor_id`, are not limited.
 */
export async function invite(
  sql: Sql,
  { tenant_id, email, role, by, mailed: wants_mail }: InvitationRequest,
  writeEmail: (tx: Tx, invitation: { id: string; token: string }) => Promise<void>,
): Promise<InviteResult> {
  return await sql.begin(async (tx): Promise<InviteResult> => {
    const { actor_id = null } = by
    const by_role = await lockRole(tx, tenant_id, actor_id)
    const refused = actor_id === null ? null : refusalOf(by_role, role)
    if (refused !== null) return { refused }
    const members = await tx`
      select from members m join users u on u.id = m.user_id
      where m.tenant_id = ${tenant_id} and u.email = ${email}`
    if (members.length > 0) return { refused: 'member' }
    const [id, token] = [newId(), randomBytes(32).toString('base64url')]
    const details = { email, role }
    const act = { action: 'members.invite', subject: 'invitation', subject_id: id, details } as const
    // The entry is appended first: concurrent invitations wait until it is committed, so the limits are checked one
    // invitation after the other.
    const audit_entry = await appendAuditEntry(tx, by, act)
    if (actor_id !== null) await assertWithinLimits(tx, tenant_id, email)
    const mailed = wants_mail && (actor_id === null || (await mayBeMailed(tx, email)))
    await tx`
      update invitations set revoked_at = now()
      where tenant_id = ${tenant_id} and email = ${email} and ${isUnused(tx)}`
    const [row] = await tx<{ expires_at: string }[]>`
      insert into invitations (tenant_id, id, email, role, token_hash, invited_by, mailed, expires_at)
      values (${tenant_id}, ${id}, ${email}, ${role}, ${hashOf(token)}, ${actor_id}, ${mailed},
        now() + ${EXPIRES_AFTER_DAYS} * interval '1 day')
      returning expires_at`
    if (mailed) await writeEmail(tx, { id, token })
    return { id, token, expires_at: row!.expires_at, mailed, audit_entry }
  })
}

/** Open invitations of a tenant, newest first. */
export async function findInvitations(sql: Sql, tenant_id: string): Promise<Invitation[]> {
  return await sql<Invitation[]>`
    select i.id, i.email, i.role, u.email as invited_by, i.created_at, i.expires_at
    from invitations i left join users u on u.id = i.invited_by
    where i.tenant_id = ${tenant_id} and ${isOpenInvitation(sql)}
    order by i.created_at desc`
}

export type RevokeResult = { changed: number } | { refused: 'no_invitation' | 'no_manager' | 'owners_only' }

/** Revokes an open invitation. Only owners revoke an invitation of an owner. */
export async function revokeInvitation(
  sql: Sql,
  { tenant_id, id, by }: { tenant_id: string; id: string; by: Actor },
): Promise<RevokeResult> {
  return await sql.begin(async (tx): Promise<RevokeResult> => {
    const by_role = await lockRole(tx, tenant_id, by.actor_id ?? null)
    const [invitation] = await tx<{ email: string; role: MemberRole }[]>`
      select email, role from invitations where tenant_id = ${tenant_id} and id = ${id} and ${isOpenInvitation(tx)}
      for update`
    if (invitation === undefined) return { refused: 'no_invitation' }
    const { email, role } = invitation
    const refused = refusalOf(by_role, role)
    if (refused !== null) return { refused }
    await tx`update invitations set revoked_at = now() where tenant_id = ${tenant_id} and id = ${id}`
    const act = { action: 'members.revoke_invitation', subject: 'invitation', subject_id: id } as const
    return { changed: await appendAuditEntry(tx, by, { ...act, details: { email } }) }
  })
}

export type OpenInvitation = {
  tenant_id: string
  tenant: string
  email: string
  role: MemberRole
  /** Whether a user with this address exists: this user must sign in to accept. */
  has_user: boolean
  /**
   * Whether the link was emailed. If so, a user who opens the link has proved that they receive email at this address.
   */
  mailed: boolean
}

/** The invitation of a link; undefined if it is not open. */
export async function findOpenInvitation(sql: Sql | Tx, token: string): Promise<OpenInvitation | undefined> {
  const [found] = await sql<OpenInvitation[]>`
    select i.tenant_id, t.name as tenant, i.email, i.role, i.mailed,
      exists (select from users u where u.email = i.email) as has_user
    from invitations i join tenants t on t.id = i.tenant_id
    where i.token_hash = ${hashOf(token)} and ${isOpenInvitation(sql)}`
  return found
}

type AcceptRequest = { tenant_id: string; token: string; user_id: string; by: Actor }

/**
 * Makes the invited user a member. `user_id`: a user created in the same transaction, or the signed-in user.
 * False if the invitation is no longer open, or if its sender may no longer give the role.
 */
export async function acceptInvitation(
  tx: Tx,
  { tenant_id, token, user_id, by }: AcceptRequest,
): Promise<boolean> {
  const token_hash = hashOf(token)
  const [sent] = await tx<{ invited_by: string | null; role: MemberRole }[]>`
    select invited_by, role from invitations where tenant_id = ${tenant_id} and token_hash = ${token_hash}`
  if (sent === undefined) return false
  const { invited_by, role } = sent
  // In the lock order of membership changes: members first, then invitations.
  const sender_role = await lockRole(tx, tenant_id, invited_by)
  if (invited_by !== null && refusalOf(sender_role, role) !== null) return false
  const [accepted] = await tx<{ id: string; mailed: boolean }[]>`
    update invitations set accepted_at = now()
    where tenant_id = ${tenant_id} and token_hash = ${token_hash} and ${isOpenInvitation(tx)}
    returning id, mailed`
  if (accepted === undefined) return false
  const { id, mailed } = accepted
  if (mailed) await tx`update users set email_verified = true where id = ${user_id} and not email_verified`
  await addMember(tx, { tenant_id, user_id, role })
  await appendAuditEntry(tx, by, {
    action: 'members.join',
    subject: 'invitation',
    subject_id: id,
    details: { role },
  })
  return true
}

async function assertWithinLimits(tx: Tx, tenant_id: string, email: string): Promise<void> {
  const [full] = await tx<{ retry_after_s: number | null }[]>`
    select ceil(extract(epoch from max(created_at) + interval '1 day' - now()))::integer as retry_after_s
    from (
      (select created_at from invitations where tenant_id = ${tenant_id} and created_at > now() - interval '1 day'
        order by created_at desc offset ${DAILY_LIMITS.tenant - 1} limit 1)
      union all
      (select created_at from invitations
        where tenant_id = ${tenant_id} and email = ${email} and created_at > now() - interval '1 day'
        order by created_at desc offset ${DAILY_LIMITS.address - 1} limit 1)
    ) exceeded`
  const retry_after_s = full?.retry_after_s ?? null
  if (retry_after_s !== null)
    throw new AppError('rate_limited', {
      message: `Too many invitations: a tenant can send ${DAILY_LIMITS.tenant} a day, and ${DAILY_LIMITS.address} to the same address. Try again later.`,
      retry_after_s,
    })
}

/**
 * Whether another invitation may be emailed to this address today. Beyond the limit the link is shown instead: other
 * tenants' invitations neither block a tenant nor are revealed to it.
 */
async function mayBeMailed(tx: Tx, email: string): Promise<boolean> {
  const sent = await tx`
    select from invitations where email = ${email} and mailed and created_at > now() - interval '1 day'
    limit ${DAILY_LIMITS.mailed}`
  return sent.length < DAILY_LIMITS.mailed
}

function hashOf(token: string): Buffer {
  return createHash('sha256').update(token).digest()
}

// The acts on users by the operator of the installation, each with an audit entry.
import type { Sql, Tx } from '#core/db.ts'
import { appendAuditEntry, type Actor } from './audit-log.ts'
import { endSessionsOf, removePasskeys } from './credentials.ts'
import type { MemberRole } from './role.ts'

export type UserView = {
  id: string
  email: string
  name: string
  is_operator: boolean
  two_factor_enabled: boolean
  passkeys: number
  /** The number of unexpired sessions. */
  sessions: number
  tenants: { slug: string; role: MemberRole }[]
  created_at: string
}

/** All users by address, or those of the tenant with this slug. */
export async function listUsers(sql: Sql, tenant?: string): Promise<UserView[]> {
  return await sql<UserView[]>`
    select u.id, u.email, u.name, u.is_operator, u.two_factor_enabled,
      (select count(*)::integer from user_passkeys p where p.user_id = u.id) as passkeys,
      (select count(*)::integer from user_sessions s where s.user_id = u.id and s.expires_at > now()) as sessions,
      coalesce((
        select jsonb_agg(jsonb_build_object('slug', t.slug, 'role', m.role) order by t.slug)
        from tenants t join members m on m.tenant_id = t.id where m.user_id = u.id), '[]') as tenants, u.created_at
    from users u
    where ${tenant ?? null}::text is null or exists (
      select from tenants t join members m on m.tenant_id = t.id where m.user_id = u.id and t.slug = ${tenant ?? null})
    order by u.email`
}

/** The id of the operator with this address, or undefined. */
export async function findOperator(sql: Sql, email: string): Promise<string | undefined> {
  const [user] = await sql<{ id: string }[]>`select id from users where email = ${email} and is_operator`
  return user?.id
}

/** `email`: the address of the user. Each act returns false if the user does not exist. */
type UserAct = { email: string; by: Actor }

/** The invitations that created a user with an unverified address. `invited_by` is null for a command. */
export type UnverifiedUser = { tenant: string; invited_by: string | null }[]

/**
 * The invitations that created a user with an unverified address; undefined if the address is verified or the
 * user does not exist.
 */
export async function findUnverifiedUser(sql: Sql, email: string): Promise<UnverifiedUser | undefined> {
  const [user] = await sql<{ invitations: UnverifiedUser }[]>`
    select coalesce((
      select jsonb_agg(jsonb_build_object('tenant', t.slug, 'invited_by', b.email) order by i.accepted_at)
      from invitations i join tenants t on t.id = i.tenant_id left join users b on b.id = i.invited_by
      where i.email = u.email and i.accepted_at is not null), '[]') as invitations
    from users u where u.email = ${email} and not u.email_verified`
  return user?.invitations
}

/** Grants or revokes the rights of an operator. */
export async function setOperator(sql: Sql, act: UserAct, is_operator: boolean): Promise<boolean> {
  const action = is_operator ? 'users.make_operator' : 'users.unmake_operator'
  return await changeUser(sql, act, action, async (tx, id) => {
    await tx`update users set is_operator = ${is_operator}, updated_at = now() where id = ${id}`
  })
}

/** Ends all sessions of a user. */
export async function endSessions(sql: Sql, act: UserAct): Promise<boolean> {
  return await changeUser(sql, act, 'users.end_sessions', endSessionsOf)
}

/** Removes one-time codes and passkeys, so that the password suffices, and ends all sessions. */
export async function resetSecondFactor(sql: Sql, act: UserAct): Promise<boolean> {
  return await changeUser(sql, act, 'users.reset_second_factor', async (tx, id) => {
    await tx`delete from user_two_factors where user_id = ${id}`
    await removePasskeys(tx, id)
    await tx`update users set two_factor_enabled = false, updated_at = now() where id = ${id}`
    await endSessionsOf(tx, id)
  })
}

/**
 * Stores a password hash, which the sign-in library has made. Removes all passkeys, because an intruder may have added
 * one, and ends all sessions.
 */
export async function setPassword(sql: Sql, act: UserAct, password_hash: string): Promise<boolean> {
  return await changeUser(sql, act, 'users.set_password', async (tx, id) => {
    await tx`
      update user_accounts set password = ${password_hash}, updated_at = now()
      where user_id = ${id} and provider_id = 'credential'`
    await removePasskeys(tx, id)
    await endSessionsOf(tx, id)
  })
}

async function changeUser(
  sql: Sql,
  { email, by }: UserAct,
  action: string,
  change: (tx: Tx, id: string) => Promise<void>,
): Promise<boolean> {
  return await sql.begin(async (tx) => {
    const [user] = await tx<{ id: string }[]>`select id from users where email = ${email} for update`
    if (user === undefined) return false
    await change(tx, user.id)
    await appendAuditEntry(tx, by, { action, subject: 'user', subject_id: user.id, details: { email } })
    return true
  })
}

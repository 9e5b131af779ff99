// The credentials of users, and the sessions that end with them.
import type { Sql, Tx } from '#core/db.ts'

/** The hash of a user's password, or undefined. */
export async function findPasswordHash(sql: Sql, user_id: string): Promise<string | undefined> {
  const [account] = await sql<{ password: string | null }[]>`
    select password from user_accounts where user_id = ${user_id} and provider_id = 'credential'`
  return account?.password ?? undefined
}

/** Ends the sessions of a user, except one, and sign-ins that wait for the second factor. */
export async function endSessionsOf(
  sql: Sql | Tx,
  user_id: string,
  { except = null }: { except?: string | null } = {},
): Promise<void> {
  await sql`delete from user_sessions where user_id = ${user_id} and id is distinct from ${except}`
  await sql`delete from user_challenges where value = ${user_id}`
}

/** Ends one session. */
export async function endSession(sql: Sql, session_id: string): Promise<void> {
  await sql`delete from user_sessions where id = ${session_id}`
}

export async function removePasskeys(sql: Sql | Tx, user_id: string): Promise<void> {
  await sql`delete from user_passkeys where user_id = ${user_id}`
}

/** The names of a user's passkeys, in the order in which they were added. */
export async function findPasskeyNames(sql: Sql, user_id: string): Promise<string[]> {
  const rows = await sql<{ name: string }[]>`
    select coalesce(name, 'Passkey') as name from user_passkeys where user_id = ${user_id} order by created_at, id`
  return rows.map(({ name }) => name)
}

/** The sealed secret of a user's one-time codes, or undefined. */
export async function findCodeSecret(sql: Sql, user_id: string): Promise<string | undefined> {
  const [found] = await sql<
    { secret: string }[]
  >`select secret from user_two_factors where user_id = ${user_id}`
  return found?.secret
}

/** Marks the time step of a one-time code as used. False if this step or a later one was used before. */
export async function useCodeStep(sql: Sql, user_id: string, step: number): Promise<boolean> {
  const { count } = await sql`
    update user_two_factors set last_step = ${step}
    where user_id = ${user_id} and (last_step is null or last_step < ${step})`
  return count > 0
}

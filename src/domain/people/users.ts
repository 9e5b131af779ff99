// Creates users: the columns that the sign-in library reads, in the transaction of the caller.
import type { Sql, Tx } from '#core/db.ts'
import { newId } from '#core/ids.ts'

/**
 * `password_hash`: made by the sign-in library. `email`: in lower case. `email_verified`: whether the user has proved
 * that they receive email at this address.
 */
export type NewUser = {
  name: string
  email: string
  email_verified: boolean
  password_hash: string
  is_operator?: boolean
}

/** Creates a user who signs in with a password; undefined if a user with this address exists. */
export async function createUser(
  tx: Tx,
  { name, email, email_verified, password_hash, is_operator = false }: NewUser,
): Promise<string | undefined> {
  const id = newId()
  const { count } = await tx`
    insert into users (id, name, email, email_verified)
    values (${id}, ${name}, ${email}, ${email_verified}) on conflict (email) do nothing`
  if (count === 0) return undefined
  // A separate statement, because only the database role of commands may write this column.
  if (is_operator) await tx`update users set is_operator = true where id = ${id}`
  await tx`
    insert into user_accounts (id, user_id, account_id, provider_id, password)
    values (${newId()}, ${id}, ${id}, 'credential', ${password_hash})`
  return id
}

export async function hasUser(sql: Sql, email: string): Promise<boolean> {
  return (await sql`select from users where email = ${email}`).length > 0
}

// Forgets what signing in leaves behind.
import type { Sql } from '#core/db.ts'
import { deleteOldSignInFailures } from './sign-in-limit.ts'

/** Removes sessions and challenges that have expired, and counts of wrong passwords that no longer matter. */
export async function deleteExpiredSessions(sql: Sql): Promise<void> {
  await sql`delete from user_sessions where expires_at <= now()`
  await sql`delete from user_challenges where expires_at <= now()`
  await deleteOldSignInFailures(sql)
}

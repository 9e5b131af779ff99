// Deletes expired data of sign-ins.
import type { Sql } from '#core/db.ts'
import { deleteOldSignInFailures } from './sign-in-limit.ts'

/** Deletes expired sessions and challenges, and outdated counts of wrong passwords. */
export async function deleteExpiredSessions(sql: Sql): Promise<void> {
  await sql`delete from user_sessions where expires_at <= now()`
  await sql`delete from user_challenges where expires_at <= now()`
  await deleteOldSignInFailures(sql)
}

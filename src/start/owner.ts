// The demo user: owner of the demo tenant, and operator. The password is generated once and printed.
import type { Sql } from '#core/db.ts'
import { addMember } from '#domain/people/members.ts'
import { newPassword } from '#domain/people/password.ts'
import { createUser, hasUser } from '#domain/people/users.ts'
import { saveSecrets, type Secrets } from './secrets.ts'

/** A reserved domain, so that no email is delivered. */
const DEMO_EMAIL = 'owner@sluice.example'
export type DashboardLogin = { email: string; password: string }

/**
 * Creates the user if it does not exist. Returns null if the user's password is unknown, e.g. because the database
 * comes from another installation.
 */
export async function ensureOwner(
  sql: Sql,
  tenant_id: string,
  data_dir: string,
  secrets: Secrets,
): Promise<DashboardLogin | null> {
  if (!(await hasUser(sql, DEMO_EMAIL))) {
    // The password is stored before the user is created: without the password the user could not sign in.
    secrets.dashboard_password ||= newPassword()
    saveSecrets(data_dir, secrets)
    const { hashPassword } = await import('better-auth/crypto')
    const password_hash = await hashPassword(secrets.dashboard_password)
    await sql.begin(async (tx) => {
      const user_id = await createUser(tx, {
        name: 'Owner',
        email: DEMO_EMAIL,
        email_verified: true,
        password_hash,
        is_operator: true,
      })
      if (user_id !== undefined) await addMember(tx, { tenant_id, user_id, role: 'owner' })
    })
  }
  const { dashboard_password: password } = secrets
  return password === '' ? null : { email: DEMO_EMAIL, password }
}

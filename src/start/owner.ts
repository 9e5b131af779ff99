// The user of a demo: owner of its tenant, and operator. The password is generated once, and printed.
import type { Sql } from '#core/db.ts'
import { newPassword } from '#domain/people/password.ts'
import { createUser } from '#domain/people/users.ts'
import { saveSecrets, type Secrets } from './secrets.ts'

/** At the domain for examples, so that no email leaves. */
const DEMO_EMAIL = 'owner@sluice.example'
export type DashboardLogin = { email: string; password: string }

/** Makes the user where there is none yet. Null when the password is not known, as with a database of somebody else. */
export async function ensureOwner(
  sql: Sql,
  tenant_id: string,
  data_dir: string,
  secrets: Secrets,
): Promise<DashboardLogin | null> {
  const [user] = await sql`select from users where email = ${DEMO_EMAIL}`
  if (user === undefined) {
    // Kept first: a user whose password is lost could not sign in.
    secrets.dashboard_password ||= newPassword()
    saveSecrets(data_dir, secrets)
    const { hashPassword } = await import('better-auth/crypto')
    const password_hash = await hashPassword(secrets.dashboard_password)
    await sql.begin(async (tx) => {
      const id = await createUser(tx, {
        name: 'Owner',
        email: DEMO_EMAIL,
        email_verified: true,
        password_hash,
        is_operator: true,
      })
      if (id !== undefined)
        await tx`insert into members (tenant_id, user_id, role) values (${tenant_id}, ${id}, 'owner')`
    })
  }
  const { dashboard_password: password } = secrets
  return password === '' ? null : { email: DEMO_EMAIL, password }
}

// The demo tenant of `npm start`, with a key in each mode and a user of the dashboard.
import type { Sql } from '#core/db.ts'
import { connectDatabase } from '#core/pool.ts'
import { createApiKey, findCredentials } from '#domain/api-keys.ts'
import { SCOPES } from '#domain/areas.ts'
import type { Actor } from '#domain/people/audit-log.ts'
import { commandActor } from '#domain/people/operator-here.ts'
import { ensureTenant, ensureTwin, setTenantContact, type Tenant } from '#domain/tenants.ts'
import { ensureOwner, type DashboardLogin } from './owner.ts'
import { saveSecrets, type Secrets } from './secrets.ts'

const DEMO_TENANT = 'demo'

/** `test_api_key`: the key of the tenant's twin in test mode. */
export type Demo = { tenant_id: string; api_key: string; test_api_key: string; login: DashboardLogin | null }

/**
 * Creates the demo tenant with its twin, a key of each with every scope, and a user of the dashboard, unless an earlier
 * start of this folder has created them. `contact`: the contact of the tenant, which is set only if the tenant has
 * none.
 */
export async function ensureDemo(
  database_url: string,
  data_dir: string,
  secrets: Secrets,
  contact: string | null,
): Promise<Demo> {
  const sql = connectDatabase(database_url, { max: 1, application_name: 'sluice-start' })
  try {
    const tenant = await ensureTenant(sql, DEMO_TENANT, 'Demo')
    if (tenant.contact_email === null && contact !== null)
      await setTenantContact(sql, tenant.id, contact, actorOf(tenant))
    const api_key = await ensureKey(sql, tenant, secrets.api_key)
    const test_api_key = await ensureKey(sql, await ensureTwin(sql, tenant), secrets.test_api_key)
    if (api_key !== secrets.api_key || test_api_key !== secrets.test_api_key)
      saveSecrets(data_dir, Object.assign(secrets, { api_key, test_api_key }))
    const login = await ensureOwner(sql, tenant.id, data_dir, secrets)
    return { tenant_id: tenant.id, api_key, test_api_key, login }
  } finally {
    await sql.end()
  }
}

/** The stored key, if it still works; otherwise a new one. */
async function ensureKey(sql: Sql, tenant: Tenant, stored: string): Promise<string> {
  if ((await findCredentials(sql, stored)) !== undefined) return stored
  const input = { name: 'Demo', scopes: [...SCOPES], expires_at: null }
  return (await createApiKey(sql, tenant, input, actorOf(tenant))).secret
}

function actorOf({ id }: Tenant): Actor {
  return commandActor('npm start', id)
}

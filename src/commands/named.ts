// What the options of a command name.
import { ConfigError } from '#core/config.ts'
import { QUEUES } from '#core/config/queues.ts'
import type { Sql } from '#core/db.ts'
import { findTenant } from '#domain/tenants.ts'

/** A queue and a tenant, by its slug. Errors: ConfigError when there is no such queue or tenant. */
export async function queueAndTenant(
  sql: Sql,
  { queue, tenant: slug }: { queue?: string; tenant?: string },
): Promise<{ queue?: string; tenant_id?: string }> {
  if (queue !== undefined && !QUEUES.some((each) => each === queue))
    throw new ConfigError(`There is no queue "${queue}". Queues: ${QUEUES.join(', ')}.`)
  const tenant = slug === undefined ? undefined : await findTenant(sql, slug)
  if (slug !== undefined && tenant === undefined) throw new ConfigError(`There is no tenant "${slug}".`)
  return { ...(queue !== undefined && { queue }), ...(tenant !== undefined && { tenant_id: tenant.id }) }
}

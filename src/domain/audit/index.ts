// The registry of checks, grouped by how an audit can limit them.
import { unionAll, type Fragment, type Sql, type Tx } from '#core/db.ts'
import { worksOn } from '../resource.ts'
import {
  rootIdColumn,
  RESOURCE_NAMES,
  rootOf,
  callStatuses,
  resourceOf,
  type ResourceName,
} from '../resources.ts'
import { balances, keys, noFigures, tenants, transfers, type AuditScope, type Checks } from './checks.ts'
import { corrections } from './corrections.ts'
import { checksOfDeliveries, checksOfBacklogs } from './deliveries.ts'
import { feed } from './feed.ts'
import { calls, jobs } from './jobs.ts'
import { notifications } from './notifications.ts'
import { people } from './people.ts'

/** Checks that apply to any row; an audit can limit them to some rows. */
const ROW_CHECKS: Checks = { transfers, calls }

/** The checks of a root resource and its child resources; an audit can limit them to some rows. */
export function checksOfRows(root: ResourceName): Checks {
  return {
    ...ROW_CHECKS,
    ...checksOf(RESOURCE_NAMES.filter((resource) => rootOf(resource) === root)),
  }
}

/** The root resources whose rows are audited when they change: they have checks or provider calls. */
export const AUDITED_RESOURCES = RESOURCE_NAMES.filter(
  (root) =>
    rootOf(root) === root &&
    RESOURCE_NAMES.some((resource) => {
      const { checks, under_way } = resourceOf(resource)
      return rootOf(resource) === root && (checks !== undefined || under_way !== undefined)
    }),
)

/** Checks of rows by creation time; an audit can limit them to a period. */
export const PERIOD_CHECKS: Checks = { keys, tenants, feed, people, corrections, ...checksOfDeliveries }

/** Checks of open jobs, and of notifications that are not in the history: always few rows. */
export const OPEN_CHECKS: Checks = { jobs, notifications }

/** Checks that run tenant by tenant. */
export const TENANT_CHECKS: Checks = {
  balances,
  ...checksOfBacklogs,
  ...Object.fromEntries(
    RESOURCE_NAMES.flatMap((resource) => Object.entries(resourceOf(resource).checks_by_tenant ?? {})),
  ),
}

/** Checks of rows in progress, which `auditInFlight` runs in batches of rows. */
export const IN_FLIGHT_CHECKS: Checks = { in_flight }

export const CHECKS: Checks = {
  ...ROW_CHECKS,
  ...checksOf(RESOURCE_NAMES),
  ...TENANT_CHECKS,
  ...IN_FLIGHT_CHECKS,
  ...OPEN_CHECKS,
  ...PERIOD_CHECKS,
}

function checksOf(resources: readonly ResourceName[]): Checks {
  return Object.fromEntries(
    resources.flatMap((resource) => Object.entries(resourceOf(resource).checks ?? {})),
  )
}

/** Every row with a provider call in progress has an open job, unless the row only waits for the provider. */
function in_flight(sql: Sql | Tx, { under_way }: AuditScope): Fragment {
  const checks = RESOURCE_NAMES.flatMap((resource) => {
    const rows = under_way.get(resource)
    const entry = resourceOf(resource).under_way
    if (rows === undefined || entry === undefined) return []
    const left = entry.awaits_provider?.(sql) ?? sql`false`
    return [
      sql`
        select ${`a ${resource} is in progress without an open job`}::text as problem, p.tenant_id,
          ${rootOf(resource)}::text as resource, ${sql(`p.${rootIdColumn(resource)}`)} as resource_id,
          p.id::text as id, p.status || ' since ' || p.updated_at as what, ${noFigures(sql)}
        from ${rows} p
        where ${entry.open(sql)} and p.status = any(${callStatuses(resource)}::text[]) and not ${left}
          and not exists (
            select from jobs j where j.tenant_id = p.tenant_id and j.resource_id = ${sql(`p.${rootIdColumn(resource)}`)}
              and ${worksOn(sql, resource, sql`p.id`)} and j.finished_at is null)`,
    ]
  })
  return unionAll(sql, checks)
}

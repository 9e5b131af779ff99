// Recovers what the old primary has and the database in use lacks. Nothing is copied: objects at a provider are looked
// up there, and what no provider lists is reported to its tenant as lost.
import type { Sql } from '#core/db.ts'
import { pathOfRoute, reportLostRequests } from '../lost-requests/report.ts'
import { findModes } from '../modes.ts'
import { storeNotifications } from '../notifications/store.ts'
import { requestLookup } from '../reconciliation/lookups.ts'
import { PROVIDER_RESOURCE_NAMES } from '../resources.ts'
import { canReportLosses, mayHaveLost } from '../switches/losses.ts'
import { isAtProvider, type OldRequest, type OldRow } from './rows.ts'

/** The last switch that can have lost changes. `can_report`: see `canReportLosses`. */
export type SwitchToCompare = { number: number; newest_at: string; can_report: boolean }

export async function findSwitchToCompare(sql: Sql): Promise<SwitchToCompare | undefined> {
  const [row] = await sql<SwitchToCompare[]>`
    select s.number, s.newest_at, ${canReportLosses(sql)} as can_report
    from database_switches s where ${mayHaveLost(sql)} order by s.number desc limit 1`
  return row
}

/** `looked_up`: new lookups. `pending`: requests whose lookup is not finished. `reported`: requests that are lost. */
export type RecoveryCounts = { looked_up: number; pending: number; reported: number }

/** Requests lookups of the objects of rows. Each is requested once for a switch. */
export async function lookUpRows(sql: Sql, rows: readonly OldRow[], number: number): Promise<number> {
  const lookups = (await lookupsOfRows(sql, rows, number)).map(({ lookup }) => lookup)
  return lookups.length === 0 ? 0 : (await storeNotifications(sql, lookups)).length
}

/** Requests lookups of the objects of requests, and reports the requests that are lost. */
export async function recoverRequests(
  sql: Sql,
  requests: readonly OldRequest[],
  { number, can_report }: SwitchToCompare,
): Promise<RecoveryCounts> {
  const looked_up = await lookUpRows(sql, requests, number)
  const lookups = await lookupsOfRows(sql, requests, number)
  const open = await findOpenLookups(
    sql,
    lookups.map(({ lookup }) => lookup.id),
  )
  const waiting = new Set<OldRequest>(
    lookups.filter(({ lookup }) => open.has(lookup.id)).map(({ row }) => row),
  )
  const to_report = requests.filter((request) => can_report && !waiting.has(request))
  const compared = to_report.map((request) => ({
    ...request,
    entry: '',
    accepted_at: request.at,
    path: pathOfRoute(request.what),
    route: request.what,
  }))
  const reported =
    compared.length === 0 ? 0 : await sql.begin(async (tx) => await reportLostRequests(tx, number, compared))
  return { looked_up, pending: requests.length - to_report.length, reported }
}

async function lookupsOfRows<Row extends OldRow>(sql: Sql, rows: readonly Row[], number: number) {
  const at_provider = rows.filter(isAtProvider)
  const tenant_ids = new Set(at_provider.flatMap(({ tenant_id }) => tenant_id ?? []))
  const modes = await findModes(sql, [...tenant_ids])
  return at_provider.flatMap((row) => {
    const resource = PROVIDER_RESOURCE_NAMES.find((name) => name === row.resource)
    if (resource === undefined) return []
    const { provider, reference, tenant_id } = row
    const of = { provider, livemode: modes.get(tenant_id ?? '') !== 'test' }
    const lookup = requestLookup(of, { resource, reference, tenant_id }, `old-primary:${number}`)
    return [{ row, lookup }]
  })
}

/** The lookups of these ids that are not applied yet. */
async function findOpenLookups(sql: Sql, ids: string[]): Promise<Set<string>> {
  if (ids.length === 0) return new Set()
  const rows = await sql<{ id: string }[]>`
    select id from notifications n where id = any(${ids}::uuid[])
      and (state in ('received', 'waiting') or (state = 'parked' and reason = 'no_answer'))`
  return new Set(rows.map(({ id }) => id))
}

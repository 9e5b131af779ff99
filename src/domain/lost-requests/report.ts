// Finds the accepted requests that a switch of the database has lost, and reports them.
import type { Fragment, Sql, Tx } from '#core/db.ts'
import { insertingEvents } from '../events.ts'
import { isOfMode } from '../modes.ts'
import { isPlaceholder } from '../recovered/parties.ts'
import { RESOURCE_NAMES, resourceOf, type ResourceName } from '../resources.ts'
import { canReportLosses, mayHaveLost } from '../switches/losses.ts'
import { verificationSubjectType } from '../verifications/verification.ts'
import { hasVisibleEffect, showsEffect } from './visible-effects.ts'
import type { LostRequest } from './resource.ts'

const PARTIES: readonly ResourceName[] = verificationSubjectType.options

/** The name of the recurring work that compares accepted requests. Its position has the `number` of the last switch. */
export const LOST_REQUESTS = 'lost requests'

/** A switch after which the accepted requests are not compared with the database yet. */
export type UncomparedSwitch = { number: number; from_ms: number; until_ms: number }

/** The clocks of Redis, of the processes and of the database may differ by this much. */
const CLOCK_TOLERANCE = '1 minute'
/** A row that is younger than its record by more than this repeats a request that the switch has lost. */
const MIN_REPETITION_DELAY = '1 second'

/** The first switch above `number` that may have lost requests and can be compared now; undefined if there is none. */
export async function findUncomparedSwitch(sql: Sql, number: number): Promise<UncomparedSwitch | undefined> {
  const tolerance = sql`${CLOCK_TOLERANCE}::interval`
  const [row] = await sql<UncomparedSwitch[]>`
    select s.number, floor(extract(epoch from s.newest_at - ${tolerance}) * 1000)::bigint as from_ms,
      ceil(extract(epoch from greatest(s.switched_at, s.witnessed_at) + ${tolerance}) * 1000)::bigint as until_ms
    from database_switches s
    where s.number > ${number} and ${mayHaveLost(sql)} and ${canReportLosses(sql)}
    order by s.number limit 1`
  return row
}

/** An accepted request as it was recorded outside of the database. `entry`: names the record of it. */
export type ComparedRequest = {
  entry: string
  accepted_at: string
  tenant_id: string
  path: string
  /** The scope of the key. */
  route: string
  key: string | null
  resource_id: string
  is_created: boolean
  job_id: string | null
}

/**
 * Reports those of the requests that the database does not have, each once: a row, and an event for the tenant. The
 * database has a request if it has its key, its job or the resource that it created, or if the row that it changed
 * shows its effect. A request with a key is reported once for each switch that lost it, whoever has recorded it. A lost
 * email is reported even if its request was repeated meanwhile, because it may have been sent before. Returns how many
 * were reported.
 */
export async function reportLostRequests(
  tx: Tx,
  switch_number: number,
  requests: ComparedRequest[],
): Promise<number> {
  const has_row = RESOURCE_NAMES.map((resource) => {
    const table = tx(resourceOf(resource).table)
    // A placeholder does not count: no provider holds the content of its request.
    const is_placeholder = PARTIES.includes(resource) ? isPlaceholder(tx) : tx`false`
    return tx`exists (
      select from ${table} r where r.tenant_id = a.tenant_id and r.id = a.resource_id and not ${is_placeholder})`
  }).reduce((some, each) => tx`${some} or ${each}`)
  // A copy of a record has the same `entry`.
  const entryOf = (number: Fragment) => tx`
    case when a.key is null then a.entry else ${lostEntry(tx, number, tx`a.route`, tx`a.key`)} end`
  const is_repeated_email = tx`exists (
    select from messages m join database_switches s on s.number = ${switch_number}
    where a.is_created and m.tenant_id = a.tenant_id and m.id = a.resource_id and m.channel = 'email'
      and m.created_at > greatest(s.newest_at, a.accepted_at + ${MIN_REPETITION_DELAY}::interval))`
  const own_entry = entryOf(tx`${switch_number}::bigint`)
  const switched_at = tx`(select s.switched_at from database_switches s where s.number = ${switch_number})`
  // Nothing shows whether an action without a key and without a visible effect was done again.
  const comparable = requests.filter(
    ({ key, is_created, route }) => key !== null || is_created || hasVisibleEffect(route),
  )
  const [row] = await tx<{ reported: number }[]>`
    with lost as materialized (
      select distinct on (a.tenant_id, ${own_entry}) a.*, ${own_entry} as own_entry, gen_random_uuid() as id,
        gen_random_uuid() as event_id
      from jsonb_to_recordset(${tx.json(comparable)}) as a(
        entry text, accepted_at timestamptz, tenant_id uuid, path text, route text, key text, resource_id uuid,
        is_created boolean, job_id uuid)
      where (${is_repeated_email} or not (
          exists (
            select from idempotency_keys k where k.tenant_id = a.tenant_id and k.key = a.key and k.scope = a.route
            offset 0)
          or exists (select from jobs j where j.tenant_id = a.tenant_id and j.id = a.job_id offset 0)
          or exists (select from job_history j where j.tenant_id = a.tenant_id and j.id = a.job_id offset 0)
          or (a.is_created and (${has_row}))
          or ${showsEffect(tx, switched_at)}))
        and not exists (
          select from database_switches s join lost_requests l
            on l.tenant_id = a.tenant_id and l.entry = ${entryOf(tx`s.number`)}
          where greatest(s.switched_at, s.witnessed_at) + ${CLOCK_TOLERANCE}::interval >= a.accepted_at
            or s.number = ${switch_number} offset 0)
        and exists (select from tenants t where t.id = a.tenant_id)
    ), reported as (
      insert into lost_requests (tenant_id, id, entry, switch_number, idempotency_key, path, resource_id, accepted_at)
      select tenant_id, id, own_entry, ${switch_number}, key, path, resource_id, accepted_at from lost
    ), event as (
      ${insertingEvents(
        tx,
        'request',
        tx`
          select tenant_id, event_id, 'request.lost' as event, id, key as idempotency_key, path, resource_id,
            accepted_at
          from lost`,
      )}
    )
    select count(*)::integer as reported from lost`
  return row!.reported
}

/** The entry of a request with a key that the switch of this number has lost. */
export function lostEntry(sql: Sql | Tx, number: Fragment, route: Fragment, key: Fragment): Fragment {
  return sql`encode(sha256(convert_to(jsonb_build_array(${number}, ${route}, ${key})::text, 'UTF8')), 'hex')`
}

/** The method and path of a route, whose path parameters follow it. */
export function pathOfRoute(route: string): string {
  const [method, path = '', ...values] = route.split(' ')
  return `${method} ${path.replaceAll(/:\w+/g, () => values.shift() ?? '')}`
}

/** The lost requests of all live tenants: their number, and the latest, at most `limit`. `tenant`: its slug. */
export async function findLostRequests(
  sql: Sql,
  limit: number,
): Promise<{ count: number; latest: (LostRequest & { tenant: string; switch_number: number })[] }> {
  const is_live = isOfMode(sql, sql`l.tenant_id`, true)
  const [row] = await sql<{ count: number }[]>`
    select count(*)::integer as count from lost_requests l where ${is_live}`
  const latest = await sql<(LostRequest & { tenant: string; switch_number: number })[]>`
    select tenant_id, (select t.slug from tenants t where t.id = l.tenant_id) as tenant, id, idempotency_key, path,
      resource_id, accepted_at, switch_number from lost_requests l where ${is_live}
    order by accepted_at desc, id desc limit ${limit}`
  return { count: row!.count, latest }
}

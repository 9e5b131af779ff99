// The backlogs of endpoints: finds the backlogs with due deliveries and locks them.
import type { Fragment, Json, Tx } from '#core/db.ts'
import { sendDelivery } from '#jobs/deliveries.ts'
import { mayDeliver } from '../switches/holds.ts'
import { droppedAs } from './dropped.ts'

/** The maximum number of backlogs in one scan, with due deliveries or without. */
const BACKLOGS_PER_SCAN = 250
/** An endpoint whose attempts have all failed for this long gets one request at a time. */
const FAILING_AFTER_S = 60

export type BacklogPosition = { tenant_id: string; endpoint_id: string }

/**
 * The backlogs to scan. With `after`: all backlogs after this position, in the order of their endpoints. Without
 * `after`: the given `backlogs`, and the backlogs of all endpoints of the given `tenants`.
 */
export type ScannedBacklogs = { after: BacklogPosition } | { backlogs: BacklogPosition[]; tenants: string[] }

/** A locked backlog with due deliveries, or with unwanted ones: queued deliveries that are not sent (`isUnwanted`). */
export type DueBacklog = BacklogPosition & {
  ordered: boolean
  enabled: boolean
  deleted: boolean
  /** Whether the backlog may contain deliveries that were queued before the endpoint was last enabled or disabled. */
  stale: boolean
  enabled_at: string
  disabled_at: string | null
  /** The status that unwanted deliveries get. */
  dropped_as: 'failed' | 'skipped'
  /** The maximum number of open jobs of the endpoint. */
  window: number
  rate_per_s: number | null
  /** The time until the rate limit allows the next request. */
  wait_ms: number
}

/**
 * Locks the backlogs with work to do. `busy`: backlogs locked by another process. `after`: where the next scan
 * continues; null at the end.
 */
export async function lockBacklogs(
  tx: Tx,
  scanned: ScannedBacklogs,
): Promise<{ backlogs: DueBacklog[]; busy: BacklogPosition[]; after: BacklogPosition | null }> {
  const rows = await tx<
    (BacklogPosition & { scanned: number; is_due: boolean; backlog: DueBacklog | null })[]
  >`
    with recursive ${'after' in scanned ? nextBacklogs(tx, scanned.after) : namedBacklogs(tx, scanned)}, due as (
      select v.tenant_id, v.endpoint_id from scan v
      join webhook_endpoints p on p.tenant_id = v.tenant_id and p.id = v.endpoint_id
      where v.scanned > 0 and ${mayDeliver(tx)}
        and (p.stale or exists (
          select from webhook_due w
          where w.tenant_id = v.tenant_id and w.endpoint_id = v.endpoint_id and w.due_at <= now()))
        and not exists (
          select from only pauses u
          where (u.queue is null or u.queue = ${sendDelivery.queue})
            and (u.tenant_id is null or u.tenant_id = v.tenant_id))
    ), backlog as (
      select n.tenant_id, n.endpoint_id, p.ordered, p.status = 'enabled' as enabled,
        p.deleted_at is not null as deleted, p.stale, p.enabled_at, p.disabled_at,
        coalesce(${droppedAs(tx)}, 'skipped') as dropped_as,
        case when p.ordered or p.failing_since < now() - ${FAILING_AFTER_S} * interval '1 second' then 1
          else p.max_in_flight end as "window",
        p.rate_per_s,
        greatest(extract(epoch from n.next_send_at - clock_timestamp()) * 1000, 0)::float8 as wait_ms
      from due
      cross join lateral (
        select * from webhook_backlogs n where n.tenant_id = due.tenant_id and n.endpoint_id = due.endpoint_id
        for update skip locked
      ) n
      join webhook_endpoints p on p.tenant_id = due.tenant_id and p.id = due.endpoint_id
    )
    select v.tenant_id, v.endpoint_id, v.scanned, due.endpoint_id is not null as is_due, to_jsonb(backlog) as backlog
    from scan v
    left join due on due.tenant_id = v.tenant_id and due.endpoint_id = v.endpoint_id
    left join backlog on backlog.tenant_id = v.tenant_id and backlog.endpoint_id = v.endpoint_id
    where v.scanned > 0 and (due.endpoint_id is not null or v.scanned = ${BACKLOGS_PER_SCAN})
    order by v.scanned, v.tenant_id, v.endpoint_id`
  const last = rows.at(-1)
  return {
    backlogs: rows.flatMap(({ backlog }) => backlog ?? []),
    busy: rows
      .filter(({ is_due, backlog }) => is_due && backlog === null)
      .map(({ tenant_id, endpoint_id }) => ({ tenant_id, endpoint_id })),
    after:
      last?.scanned === BACKLOGS_PER_SCAN
        ? { tenant_id: last.tenant_id, endpoint_id: last.endpoint_id }
        : null,
  }
}

/** The backlogs as rows `l` of the next statement. */
export function backlogsOf(tx: Tx, backlogs: Json[]): Fragment {
  return tx`
    jsonb_to_recordset(${tx.json(backlogs)}) as l(tenant_id uuid, endpoint_id uuid, ordered boolean, enabled boolean,
      deleted boolean, stale boolean, enabled_at timestamptz, disabled_at timestamptz, dropped_as text,
      "window" integer, allowed integer, is_proven boolean, last_at float8)`
}

/** The part `scan`: the next backlogs in the order of their endpoints. */
function nextBacklogs(tx: Tx, after: BacklogPosition): Fragment {
  return tx`
    scan as (
      select ${after.tenant_id}::uuid as tenant_id, ${after.endpoint_id}::uuid as endpoint_id, 0 as scanned
      union all
      select next.tenant_id, next.endpoint_id, v.scanned + 1 from scan v
      cross join lateral (
        select w.tenant_id, w.endpoint_id from webhook_due w
        where (w.tenant_id, w.endpoint_id) > (v.tenant_id, v.endpoint_id)
        order by w.tenant_id, w.endpoint_id limit 1
      ) next
      where v.scanned < ${BACKLOGS_PER_SCAN}
    )`
}

/** The part `scan`: the given backlogs. */
function namedBacklogs(
  tx: Tx,
  { backlogs, tenants }: Extract<ScannedBacklogs, { backlogs: unknown }>,
): Fragment {
  return tx`
    scan as (
      select tenant_id, endpoint_id, 1 as scanned
      from jsonb_to_recordset(${tx.json(backlogs)}) as l(tenant_id uuid, endpoint_id uuid)
      union
      select p.tenant_id, p.id, 1 from webhook_endpoints p
      where p.tenant_id = any(${tenants}::uuid[]) and p.deleted_at is null
    )`
}

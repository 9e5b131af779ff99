// The lines of endpoints: which are visited, and which of these somebody else is not busy with.
import type { Fragment, Json, Tx } from '#core/db.ts'
import { sendDelivery } from '#jobs/deliveries.ts'
import { droppedAs } from './dropped.ts'

/** The most lines that one walk visits, whether anything in them is due or not. */
const LINES_A_WALK = 250
/** An endpoint that has only failed for so long gets one request at a time. */
const FAILING_S = 60

export type LinePosition = { tenant_id: string; endpoint_id: string }

/** Which lines are visited: the next of a walk through all, or these, and those of all endpoints of these tenants. */
export type VisitedLines = { after: LinePosition } | { lines: LinePosition[]; tenants: string[] }

/** A line in which something is due or unwanted, with its lock held. */
export type DueLine = LinePosition & {
  ordered: boolean
  enabled: boolean
  deleted: boolean
  /** There may be deliveries in it from before it was turned on or off. */
  stale: boolean
  enabled_at: string
  disabled_at: string | null
  /** What becomes of deliveries that are not sent. */
  dropped_as: 'failed' | 'skipped'
  /** How many jobs it may have at once. */
  window: number
  rate_per_s: number | null
  /** Until its rate allows the next. */
  wait_ms: number
}

/** Locks the lines in which there is something to do. `busy`: those that somebody else has locked; `after`: where the next walk continues. */
export async function lockLines(
  tx: Tx,
  visited: VisitedLines,
): Promise<{ lines: DueLine[]; busy: LinePosition[]; after: LinePosition | null }> {
  const rows = await tx<(LinePosition & { visited: number; is_due: boolean; line: DueLine | null })[]>`
    with recursive ${'after' in visited ? walk(tx, visited.after) : named(tx, visited)}, due as (
      select v.tenant_id, v.endpoint_id from visit v
      join webhook_endpoints p on p.tenant_id = v.tenant_id and p.id = v.endpoint_id
      where v.visited > 0
        and (p.stale or exists (
          select from webhook_due w
          where w.tenant_id = v.tenant_id and w.endpoint_id = v.endpoint_id and w.due_at <= now()))
        and not exists (
          select from pauses u
          where (u.queue is null or u.queue = ${sendDelivery.queue})
            and (u.tenant_id is null or u.tenant_id = v.tenant_id))
    ), line as (
      select n.tenant_id, n.endpoint_id, p.ordered, p.status = 'enabled' as enabled,
        p.deleted_at is not null as deleted, p.stale, p.enabled_at, p.disabled_at,
        coalesce(${droppedAs(tx)}, 'skipped') as dropped_as,
        case when p.ordered or p.failing_since < now() - ${FAILING_S} * interval '1 second' then 1
          else p.max_in_flight end as "window",
        p.rate_per_s,
        greatest(extract(epoch from n.next_send_at - clock_timestamp()) * 1000, 0)::float8 as wait_ms
      from due
      cross join lateral (
        select * from webhook_lines n where n.tenant_id = due.tenant_id and n.endpoint_id = due.endpoint_id
        for update skip locked
      ) n
      join webhook_endpoints p on p.tenant_id = due.tenant_id and p.id = due.endpoint_id
    )
    select v.tenant_id, v.endpoint_id, v.visited, due.endpoint_id is not null as is_due, to_jsonb(line) as line
    from visit v
    left join due on due.tenant_id = v.tenant_id and due.endpoint_id = v.endpoint_id
    left join line on line.tenant_id = v.tenant_id and line.endpoint_id = v.endpoint_id
    where v.visited > 0 and (due.endpoint_id is not null or v.visited = ${LINES_A_WALK})
    order by v.visited, v.tenant_id, v.endpoint_id`
  const last = rows.at(-1)
  return {
    lines: rows.flatMap(({ line }) => line ?? []),
    busy: rows
      .filter(({ is_due, line }) => is_due && line === null)
      .map(({ tenant_id, endpoint_id }) => ({ tenant_id, endpoint_id })),
    after:
      last?.visited === LINES_A_WALK ? { tenant_id: last.tenant_id, endpoint_id: last.endpoint_id } : null,
  }
}

/** The lines as rows `l`, to be read by the next statement. */
export function linesOf(tx: Tx, lines: Json[]): Fragment {
  return tx`
    jsonb_to_recordset(${tx.json(lines)}) as l(tenant_id uuid, endpoint_id uuid, ordered boolean, enabled boolean,
      deleted boolean, stale boolean, enabled_at timestamptz, disabled_at timestamptz, dropped_as text,
      "window" integer, allowed integer, is_proven boolean, last_at float8)`
}

/** The part `visit`: the next lines of a walk through all of them. */
function walk(tx: Tx, after: LinePosition): Fragment {
  return tx`
    visit as (
      select ${after.tenant_id}::uuid as tenant_id, ${after.endpoint_id}::uuid as endpoint_id, 0 as visited
      union all
      select next.tenant_id, next.endpoint_id, v.visited + 1 from visit v
      cross join lateral (
        select w.tenant_id, w.endpoint_id from webhook_due w
        where (w.tenant_id, w.endpoint_id) > (v.tenant_id, v.endpoint_id)
        order by w.tenant_id, w.endpoint_id limit 1
      ) next
      where v.visited < ${LINES_A_WALK}
    )`
}

/** The same of lines that are known. */
function named(tx: Tx, { lines, tenants }: Extract<VisitedLines, { lines: unknown }>): Fragment {
  return tx`
    visit as (
      select tenant_id, endpoint_id, 1 as visited
      from jsonb_to_recordset(${tx.json(lines)}) as l(tenant_id uuid, endpoint_id uuid)
      union
      select p.tenant_id, p.id, 1 from webhook_endpoints p
      where p.tenant_id = any(${tenants}::uuid[]) and p.deleted_at is null
    )`
}

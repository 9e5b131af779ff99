// Rate limits of messages: per tenant and minute, and per destination and hour. The statement that accepts messages
// counts them.
import type { Fragment, Sql, Tx } from '#core/db.ts'

/** The time window of each limit. */
export const MESSAGE_WINDOWS = {
  tenant: { window: 'minute', window_s: 60 },
  destination: { window: 'hour', window_s: 3600 },
} as const
export type MessageLimit = keyof typeof MESSAGE_WINDOWS

/** The maximum number of messages per window. */
export type MessageLimits = Readonly<Record<MessageLimit, number>>

/**
 * Parts of a statement that count requests. `requested` selects `tenant_id`, `scope`, `nth` (the order of the requests)
 * and any other columns. The part `<limit>_counted` has the columns of `requested`, `within_limit` and `retry_after_s`,
 * the time until the window ends. Rows are written in a fixed order, so statements cannot deadlock. Refused requests do
 * not increase a count.
 */
export function countingMessages(
  sql: Sql | Tx,
  limit: MessageLimit,
  max_messages: number,
  requested: Fragment,
): Fragment {
  const { window, window_s } = MESSAGE_WINDOWS[limit]
  const [requested_rows, counter, full, counted] = ['requested', 'counter', 'full', 'counted'].map((part) =>
    sql(`${limit}_${part}`),
  )
  return sql`
    ${requested_rows!} as (${requested}),
    ${counter!} as (
      insert into message_limits as m (tenant_id, scope, window_start, used)
      select tenant_id, scope, date_trunc(${window}, now()), least(count(*), ${max_messages}::integer)
      from ${requested_rows!} group by tenant_id, scope order by tenant_id, scope
      on conflict (tenant_id, scope) do update set
        -- A statement that waited for the row lock may have an older window. The stored window never moves back.
        window_start = greatest(m.window_start, excluded.window_start),
        used = least(${max_messages}::integer,
          excluded.used + case when m.window_start >= excluded.window_start then m.used else 0 end)
      returning tenant_id, scope, new.window_start, new.used,
        case when old.window_start = new.window_start then old.used else 0 end as used_before
    ), ${full!} as materialized (
      -- Only the counters that reached their limit: few or none, so comparing each request with all of them is cheap.
      select * from ${counter!} where used >= ${max_messages}::integer
    ), ${counted!} as (
      select w.*, f.used_before is null
          or f.used_before + row_number() over (partition by w.tenant_id, w.scope order by w.nth) <= ${max_messages}
          as within_limit,
        greatest(1, ceil(extract(epoch from f.window_start - clock_timestamp()) + ${window_s}))::integer
          as retry_after_s
      from ${requested_rows!} w left join ${full!} f on f.tenant_id = w.tenant_id and f.scope = w.scope
    )`
}

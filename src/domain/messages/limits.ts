// How many messages a tenant may ask for in a minute, and in an hour to one destination: counted by the statement that
// accepts them.
import type { Fragment, Sql, Tx } from '#core/db.ts'

/** What is counted, over which time, and by which rows. */
export const MESSAGE_WINDOWS = {
  tenant: { window: 'minute', window_s: 60 },
  destination: { window: 'hour', window_s: 3600 },
} as const
export type MessageLimit = keyof typeof MESSAGE_WINDOWS

/** The most messages in each. */
export type MessageLimits = Readonly<Record<MessageLimit, number>>

/**
 * Counts, as parts of a statement. `wanted` selects `tenant_id`, `scope` and `nth`, the place of a request, and whatever is
 * needed of it later: the part `<limit>_counted` has those with `fits`, whether the request is within the limit, and
 * `retry_after_s`, until the window ends. Rows are written in one order, so that no two statements block each other. What is
 * refused leaves a window full, never more than full.
 */
export function counting(sql: Sql | Tx, limit: MessageLimit, most: number, wanted: Fragment): Fragment {
  const { window, window_s } = MESSAGE_WINDOWS[limit]
  const [wanted_by, counter, full, counted] = ['wanted', 'counter', 'full', 'counted'].map((part) =>
    sql(`${limit}_${part}`),
  )
  return sql`
    ${wanted_by!} as (${wanted}),
    ${counter!} as (
      insert into message_limits as m (tenant_id, scope, window_start, used)
      select tenant_id, scope, date_trunc(${window}, now()), least(count(*), ${most}::integer)
      from ${wanted_by!} group by tenant_id, scope order by tenant_id, scope
      on conflict (tenant_id, scope) do update set
        -- Who waited for the row may be late: a window never goes back.
        window_start = greatest(m.window_start, excluded.window_start),
        used = least(${most}::integer,
          excluded.used + case when m.window_start >= excluded.window_start then m.used else 0 end)
      returning tenant_id, scope, new.window_start, new.used,
        case when old.window_start = new.window_start then old.used else 0 end as used_before
    ), ${full!} as materialized (
      -- Few or none: each request is compared with all of these.
      select * from ${counter!} where used >= ${most}::integer
    ), ${counted!} as (
      select w.*, f.used_before is null
          or f.used_before + row_number() over (partition by w.tenant_id, w.scope order by w.nth) <= ${most} as fits,
        greatest(1, ceil(extract(epoch from f.window_start - clock_timestamp()) + ${window_s}))::integer
          as retry_after_s
      from ${wanted_by!} w left join ${full!} f on f.tenant_id = w.tenant_id and f.scope = w.scope
    )`
}

// The actions whose effect the row of their resource shows: it tells whether the database has lost one of them.
import type { Fragment, Sql, Tx } from '#core/db.ts'

type Effect = { table: string; isPresent: (sql: Sql | Tx, switched_at: Fragment) => Fragment }

const payoutEffect: Effect = {
  table: 'payouts',
  // A cancellation and a manual failure join each other.
  isPresent: (sql, switched_at) => sql`
    (r.status in ('canceled', 'failed')
      or (r.open and greatest(r.cancel_requested_at, r.fail_requested_at) > ${countsFrom(sql, switched_at)}))`,
}

/**
 * By route: the table of the resource, and the condition under which its row `r` shows the effect of the action `a`, or
 * a repetition since the switch is in progress. A change that began before the switch may still fail, so it counts only
 * for an action without a key, which joined that change or began it.
 */
const VISIBLE_EFFECTS: Readonly<Record<string, Effect>> = {
  'POST /v1/payments/:id/capture': {
    table: 'payments',
    isPresent: (sql) => sql`r.status = 'captured'`,
  },
  'POST /v1/payments/:id/cancel': {
    table: 'payments',
    isPresent: (sql, switched_at) => sql`
      (r.status = 'canceled' or (r.open and r.cancel_requested_at > ${countsFrom(sql, switched_at)}))`,
  },
  'POST /v1/payouts/:id/cancel': payoutEffect,
  'POST /v1/payouts/:id/fail': payoutEffect,
  'POST /v1/compliance/kyc/:id/decide': {
    table: 'verifications',
    // A decision after the switch may be another one.
    isPresent: (sql, switched_at) => sql`(r.decided_by = 'manual' and r.decided_at < ${switched_at})`,
  },
  'POST /v1/messages/:id/cancel': { table: 'messages', isPresent: (sql) => sql`r.status = 'canceled'` },
  'POST /v1/ai/tasks/:id/cancel': { table: 'ai_tasks', isPresent: (sql) => sql`r.status = 'canceled'` },
}

/** From when on a change that is in progress counts for the action `a`: see `VISIBLE_EFFECTS`. */
function countsFrom(sql: Sql | Tx, switched_at: Fragment): Fragment {
  return sql`(case when a.key is null then '-infinity' else ${switched_at} end)`
}

export const ROUTES_WITH_VISIBLE_EFFECT = Object.keys(VISIBLE_EFFECTS)

/** Whether the row of its resource shows the effect of an action. `route`: with its path parameters. */
export function hasVisibleEffect(route: string): boolean {
  return ROUTES_WITH_VISIBLE_EFFECT.some((name) => route.startsWith(`${name} `))
}

/** Whether the request `a` is such an action, and the row shows its effect, since the switch that may have lost it. */
export function showsEffect(sql: Sql | Tx, switched_at: Fragment): Fragment {
  const shown = Object.entries(VISIBLE_EFFECTS)
    .map(
      ([route, { table, isPresent }]) => sql`
        (starts_with(a.route, ${`${route} `}) and exists (
          select from ${sql(table)} r
          where r.tenant_id = a.tenant_id and r.id = a.resource_id and ${isPresent(sql, switched_at)} offset 0))`,
    )
    .reduce((some, each) => sql`${some} or ${each}`)
  return sql`(not a.is_created and (${shown}))`
}

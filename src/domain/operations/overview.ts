// The overview of a tenant: the flow of money, stuck work, and problems that need a person.
import { z } from 'zod'
import { QUEUES } from '#core/config/queues.ts'
import type { Sql } from '#core/db.ts'
import { lowerCurrency } from '#core/money.ts'
import { timestamp } from '#core/time.ts'
import { listWalletBalances, walletBalanceSchema } from '../wallet/balances.ts'
import { listBalanceDays } from '../wallet/week.ts'
import { findRetryingOfTenant } from '../jobs/retrying.ts'
import { claimableSince, isHeldOrSealed, isQueueHeld } from '../switches/holds.ts'
import { attentionSchema, findAttention, MAX_COUNTED } from './attention.ts'
import type { PAYMENT_KINDS } from '../rollups/count-payments.ts'

/** The number of days in the overview: two months, so that the months can be compared. */
const DAYS = 60
const WEEK = 7

const sum = (description: string, example: number) => z.int().meta({ description, example })
const success = z
  .number()
  .nullable()
  .meta({ description: 'The fraction of authorizations that succeeded; null without any.', example: 0.97 })

const paymentDaySchema = z.object({
  day: z.string().meta({ description: 'The day, UTC.', example: '2026-11-20' }),
  captured: sum('Captured payments.', 40),
  captured_minor: sum('The captured amount.', 40_000),
  refunded: sum('Successful refunds, including those that failed later.', 1),
  refunded_minor: sum('The refunded amount, including refunds that failed later.', 1000),
  authorized: sum('Authorized payments.', 42),
  failed: sum('Payments whose authorization failed.', 2),
  success_rate: success,
})
type PaymentDay = z.output<typeof paymentDaySchema>

const weekSchema = paymentDaySchema.omit({ day: true })

export const overviewSchema = z
  .object({
    currencies: z.array(
      z.object({
        currency: lowerCurrency,
        days: z
          .array(paymentDaySchema)
          .meta({ description: 'The last 60 days, oldest first; the last one is today.' }),
        week: weekSchema.meta({ description: 'The total of the last seven days.' }),
        week_before: weekSchema.meta({ description: 'The total of the seven days before.' }),
      }),
    ),
    balances: z.array(
      walletBalanceSchema.extend({
        days_minor: z.array(z.int()).meta({
          description:
            'The balance at the end of each of the last seven days, oldest first; the last one is the present balance.',
          example: [9_000, 9_000, 11_000, 10_500, 12_000, 12_000, 12_000],
        }),
      }),
    ),
    attention: z.array(attentionSchema),
    oldest_due_s: z.int().meta({
      description: 'How long the oldest of its jobs has been due, in seconds; 0 without due jobs.',
      example: 0,
    }),
    retrying: z.int().meta({
      description: 'The number of its retrying jobs, whose last attempt failed; at most 1,000.',
      example: 0,
    }),
    oldest_retrying_s: z.int().meta({
      description: 'How long the attempts of the oldest retrying job have failed, in seconds; 0 without any.',
      example: 0,
    }),
    uncounted_events: z.int().meta({
      description: 'Events not counted in the days yet, usually those of the last seconds.',
      example: 0,
    }),
    as_of: timestamp.meta({ description: 'The time of the response.' }),
  })
  .meta({ id: 'Overview', description: 'The state of a tenant.' })
export type Overview = z.output<typeof overviewSchema>

type DayCount = {
  day: string
  currency: string
  kind: (typeof PAYMENT_KINDS)[number]['kind']
  count: number
  amount_minor: number
}

/**
 * The state of a tenant. Days are UTC days of the counted events: a payment may be authorized on one day and
 * captured on another. `for_operator`: includes the problems of the whole installation.
 */
export async function findOverview(
  sql: Sql,
  tenant_id: string,
  { for_operator = false }: { for_operator?: boolean } = {},
): Promise<Overview> {
  const retrying = await findRetryingOfTenant(sql, tenant_id, MAX_COUNTED + 1)
  const [[now], rows, balances, balance_days, attention] = await Promise.all([
    sql<{ as_of: string; today: string; oldest_due_s: number; uncounted_events: number }[]>`
      select clock_timestamp() as as_of, (now() at time zone 'UTC')::date::text as today,
        coalesce(s.last_sequence - coalesce(c.sequence, 0) - gaps.uncounted, 0) as uncounted_events,
        greatest(floor(extract(epoch from now() - oldest.since)), 0)::integer as oldest_due_s
      from (select ${tenant_id}::uuid as tenant_id) t
      left join event_sequences s on s.tenant_id = t.tenant_id
      left join payment_cursors c on c.tenant_id = t.tenant_id
      cross join lateral (
        select coalesce(sum(r.next_sequence - r.last_sequence_before - 1), 0)::bigint as uncounted from feed_restarts r
        where r.tenant_id = ${tenant_id} and r.last_sequence_before >= coalesce(c.sequence, 0)
      ) gaps
      cross join lateral (
        select min(first.since) as since from unnest(${[...QUEUES]}::text[]) as requested(queue)
        cross join lateral (
          select ${claimableSince(sql)} as since from jobs j
          where j.queue = requested.queue and j.tenant_id = ${tenant_id} and j.finished_at is null and j.run_at <= now()
            and not ${isQueueHeld(sql, sql`requested.queue`)} and j.state = 'ready' and not ${isHeldOrSealed(sql)}
          order by j.priority, j.run_at limit 1
        ) first
      ) oldest`,
    // Amounts beyond the safe integers of JSON are capped.
    sql<DayCount[]>`
      select day::text as day, lower(currency) as currency, kind, count,
        least(amount_minor, ${Number.MAX_SAFE_INTEGER}::bigint)::bigint as amount_minor
      from payment_days
      where tenant_id = ${tenant_id} and day > (now() at time zone 'UTC')::date - ${DAYS}::integer`,
    listWalletBalances(sql, tenant_id),
    listBalanceDays(sql, tenant_id, WEEK),
    findAttention(sql, tenant_id, { retrying, for_operator }),
  ])
  const { as_of, today, oldest_due_s, uncounted_events } = now!
  const currencies = Array.from(
    Map.groupBy(rows, ({ currency }) => currency),
    ([currency, of_currency]) => {
      const days = Array.from({ length: DAYS }, (_, nth) => {
        const day = new Date(Date.parse(today) - (DAYS - 1 - nth) * 86_400_000).toISOString().slice(0, 10)
        return { day, ...sumDays(of_currency.filter((row) => row.day === day)) }
      })
      const of = (some: PaymentDay[]) => {
        const names = new Set(some.map(({ day }) => day))
        return sumDays(of_currency.filter(({ day }) => names.has(day)))
      }
      return { currency, days, week: of(days.slice(-WEEK)), week_before: of(days.slice(-2 * WEEK, -WEEK)) }
    },
  ).toSorted((a, b) => (a.currency < b.currency ? -1 : 1))
  return {
    currencies,
    balances: balances.map((each) => ({ ...each, days_minor: balance_days.get(each.currency) ?? [] })),
    attention,
    oldest_due_s,
    retrying: Math.min(
      MAX_COUNTED,
      retrying.reduce((sum, { count }) => sum + count, 0),
    ),
    oldest_retrying_s: Math.max(0, ...retrying.map(({ oldest_s }) => oldest_s)),
    uncounted_events,
    as_of,
  }
}

function sumDays(rows: DayCount[]): Omit<PaymentDay, 'day'> {
  const of = (kind: DayCount['kind'], what: 'count' | 'amount_minor') =>
    rows.reduce((total, row) => total + (row.kind === kind ? row[what] : 0), 0)
  const [authorized, failed] = [of('authorized', 'count'), of('failed', 'count')]
  return {
    captured: of('captured', 'count'),
    captured_minor: of('captured', 'amount_minor'),
    refunded: of('refunded', 'count'),
    refunded_minor: of('refunded', 'amount_minor'),
    authorized,
    failed,
    success_rate: authorized + failed === 0 ? null : authorized / (authorized + failed),
  }
}

// The transactions of a wallet: every ledger transfer that changed the tenant's available balance.
import { z } from 'zod'
import type { Fragment, Sql } from '#core/db.ts'
import { lowerCurrency } from '#core/money.ts'
import { timestamp } from '#core/time.ts'
import type { ListPage } from '../pages.ts'
import { POSTING_RESOURCE_NAMES, RESOURCES, type PostingResourceName } from '../resources.ts'

type PostedKind = (typeof RESOURCES)[PostingResourceName]['transfer_kinds'][number]

const RESOURCE_OF_KIND = new Map<string, PostingResourceName>(
  POSTING_RESOURCE_NAMES.flatMap((resource) =>
    RESOURCES[resource].transfer_kinds.map((kind) => [kind, resource] as const),
  ),
)
const POSTED_KINDS = POSTING_RESOURCE_NAMES.flatMap(
  (resource): readonly PostedKind[] => RESOURCES[resource].transfer_kinds,
)

export const transactionKind = z.enum([...POSTED_KINDS, 'fee', 'correction']).meta({
  id: 'WalletTransactionKind',
  description:
    '`capture`: a payment was captured. `refund`: money went back to a buyer; `refund_failed`: the refund failed and the money came back. `top_up`: you added money; `top_up_reversed`: it was taken back. `payout_paid`: a payout was paid; `payout_returned`: it came back. `dispute_withdrawn`: a buyer disputed a payment; `dispute_reinstated`: you won the dispute. `fee`: a fee was charged. `correction`: a mistake was corrected.',
  example: 'capture',
})

export const walletTransactionSchema = z
  .object({
    id: z
      .uuid()
      .meta({ description: 'The id of the transaction.', example: '0198f6f2-ad15-7000-8000-123456789abc' }),
    kind: transactionKind,
    currency: lowerCurrency,
    amount_minor: z
      .int()
      .meta({ description: 'The change of the balance; negative if it fell.', example: 1000 }),
    balance_after_minor: z
      .int()
      .meta({ description: 'The balance of this currency after it.', example: 12_000 }),
    subject_type: z.enum(POSTING_RESOURCE_NAMES).nullable().meta({
      description: 'The type of the resource that caused it; null if none did.',
      example: 'payment',
    }),
    subject_id: z
      .uuid()
      .meta({ description: 'The id of that resource.', example: '0198f6f0-1234-7000-8000-123456789abc' }),
    created_at: timestamp.meta({ description: 'When it was posted: the cursor of lists.' }),
  })
  .meta({ id: 'WalletTransaction', description: 'One change of a balance. It never changes.' })

export type WalletTransaction = z.output<typeof walletTransactionSchema>

export type TransactionFilters = ListPage & {
  currency?: string
  kind?: WalletTransaction['kind']
  subject_id?: string
}

/**
 * The transactions of a tenant, newest first. Transactions of the same time, which have different currencies, are never
 * split between pages, so the time can be the cursor, and a page may have a few more rows than `limit`.
 */
export async function listTransactions(
  sql: Sql,
  tenant_id: string,
  { currency, kind, subject_id, created_from, created_to, before, limit }: TransactionFilters,
): Promise<WalletTransaction[]> {
  const from = sql`${created_from ?? '-infinity'}::timestamptz`
  const to = sql`least(${created_to ?? 'infinity'}::timestamptz, ${before ?? 'infinity'}::timestamptz)`
  const of_kind = sql`t.kind = coalesce(${kind ?? null}, t.kind)`
  const of_currency = currency?.toUpperCase() ?? null
  // A subject has few transfers, so all of them are read. Without a subject, transfers are read from the end of each
  // account.
  const transfers =
    subject_id === undefined
      ? sql`
        select t.* from ledger_accounts a
        cross join lateral (${transfersBefore(sql, from)}) first
        cross join lateral (${transfersBefore(sql, to)}) last
        cross join lateral (
          select t.* from ledger_transfers t
          where t.tenant_id = a.tenant_id and t.currency = a.currency and t.seq > first.seq and t.seq <= last.seq
            and ${of_kind}
          order by t.seq desc limit ${limit}
        ) t
        where a.tenant_id = ${tenant_id} and a.name = 'available'
          and a.currency = coalesce(${of_currency}, a.currency)`
      : sql`
        select t.* from ledger_transfers t
        where t.tenant_id = ${tenant_id} and t.subject_id = ${subject_id} and t.seq is not null
          and t.currency = coalesce(${of_currency}, t.currency) and ${of_kind}
          and t.created_at >= ${from} and t.created_at < ${to}`
  const rows = await sql<Omit<WalletTransaction, 'subject_type'>[]>`
    select t.id, t.kind, lower(t.currency) as currency,
      case t.credit_account when 'available' then t.amount_minor else -t.amount_minor end as amount_minor,
      t.balance_after_minor, t.subject_id, t.created_at
    from (
      select * from (${transfers}) t order by t.created_at desc fetch first ${limit} rows with ties
    ) t
    order by t.created_at desc, t.id desc`
  return rows.map((row) => ({ ...row, subject_type: RESOURCE_OF_KIND.get(row.kind) ?? null }))
}

/**
 * The number of transfers of the account `a` before `time`, as `seq`. The sequence of an account has no gaps and is in
 * the order of time, so a binary search over the index finds this number.
 */
export function transfersBefore(sql: Sql, time: Fragment): Fragment {
  return sql`
    with recursive search(low, high) as (
      select case when ${time} = 'infinity' then a.last_seq else 0 end,
        case when ${time} = '-infinity' then 1 else a.last_seq + 1 end
      union all
      select case when older then middle else low end, case when older then high else middle end
      from search
      cross join lateral (select (low + high) / 2 as middle) m
      cross join lateral (
        select t.created_at < ${time} as older from ledger_transfers t
        where t.tenant_id = a.tenant_id and t.currency = a.currency and t.seq = m.middle offset 0
      ) t
      where high - low > 1
    )
    select low as seq from search where high - low <= 1`
}

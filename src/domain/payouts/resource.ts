// The definition of the resource `payout`, and its comparison with the processor's payout.
import { z } from 'zod'
import type { Fragment, Sql, Tx } from '#core/db.ts'
import { checksOfPayouts } from '../audit/payouts.ts'
import { AMOUNT_SIDE, sameAmount, type Side } from '../reconciliation/side.ts'
import { wasJustMadeAgain, type Resource } from '../resource.ts'
import { PAYOUT_EVENTS, payoutSchema } from './payout.ts'

const payoutSide = z.object({
  ...AMOUNT_SIDE,
  out_minor: z.int().meta({
    description: 'The amount that was paid and has not come back; for payouts only.',
    example: 1000,
  }),
})

export const payoutResource = {
  table: 'payouts',
  view: payoutSchema,
  events: PAYOUT_EVENTS,
  transfer_kinds: ['payout_paid', 'payout_returned'],
  reserves: (sql) => sql`p.open`,
  under_way: {
    open: (sql) => sql`p.open`,
    // The processor may still pay a payout that operators failed, and the notification may be lost.
    eligible_for_lookup: (sql) => sql`(p.open or p.processor_status = 'processing')`,
    // The processor works on the payout until it reports the outcome.
    awaits_provider: (sql) => sql`(
      (p.status = 'processing' and p.cancel_requested_at is null) or ${wasJustMadeAgain(sql)})`,
  },
  at_provider: {
    scope: 'payouts:read',
    provider: 'processor',
    reference: 'processor_reference',
    side: payoutSide,
    isRedundant: payoutIsRedundant,
    contradiction: payoutContradiction,
    agreeing_statuses: {
      processing: ['processing'],
      paid: ['paid'],
      failed: ['failed', 'canceled'],
      canceled: ['canceled', 'failed'],
    },
    reverted_statuses: ['failed', 'canceled'],
  },
  checks: checksOfPayouts,
} as const satisfies Resource

/** The text about two sides with contradictory statuses. */
function payoutContradiction(ours: Side, theirs: Side): string | null {
  const here = { failed: 'has failed', canceled: 'is canceled' }[ours.status]
  const there = { processing: 'is paying it', paid: 'has paid it' }[theirs.status]
  if (here === undefined || there === undefined) return null
  return `the payout ${here} here, but the processor ${there}`
}

/**
 * The condition under which a report adds nothing: `processing` when any status of the processor is stored, `paid`
 * when the payout is paid and the returned amount is posted, `canceled` when the cancellation is settled. A failure
 * always adds its reason.
 */
function payoutIsRedundant(sql: Sql | Tx): Fragment {
  return sql`
    ${sameAmount(sql)} and case reported.status
      when 'processing' then r.processor_status is not null
      when 'paid' then r.status = 'paid' and r.returned_minor >= coalesce(reported.status_amount_minor, 0)
      when 'canceled' then r.status = 'canceled' and r.processor_status = 'canceled'
      else false end`
}

// The definition of the resource `refund`, and its comparison with the processor's refund.
import { z } from 'zod'
import { checksOfRefunds } from '../audit/refunds.ts'
import { AMOUNT_SIDE, sameAmount, type Side } from '../reconciliation/side.ts'
import { isAcceptedByProvider, type Resource } from '../resource.ts'
import { REFUND_EVENTS, refundSchema } from './refund.ts'

export const refundResource = {
  table: 'refunds',
  parent: { resource: 'payment', id_column: 'payment_id' },
  view: refundSchema,
  events: REFUND_EVENTS,
  transfer_kinds: ['refund', 'refund_failed'],
  under_way: {
    open: (sql) => sql`p.status = 'pending'`,
    awaits_provider: (sql) => sql`(p.imported or ${isAcceptedByProvider(sql, 'refund', sql`p.payment_id`)})`,
  },
  at_provider: {
    scope: 'payments:read',
    provider: 'processor',
    reference: 'processor_reference',
    side: z.object(AMOUNT_SIDE),
    isRedundant: (sql) => sql`
      ${sameAmount(sql)} and (reported.status = 'pending'
        or (reported.status = r.status and (r.status = 'succeeded' or r.out_minor = 0)))`,
    contradiction: refundContradiction,
    agreeing_statuses: { pending: ['pending'], succeeded: ['succeeded'], failed: ['failed'] },
  },
  checks: checksOfRefunds,
} as const satisfies Resource

/** The text about two sides with contradictory statuses. */
function refundContradiction(ours: Side, theirs: Side): string | null {
  const there = { pending: 'is making it', succeeded: 'has made it' }[theirs.status]
  return ours.status === 'failed' && there !== undefined
    ? `the refund has failed here, but the processor ${there}`
    : null
}

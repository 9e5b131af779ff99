// The definition of the resource `dispute`, and its comparison with the processor's dispute.
import { z } from 'zod'
import { checksOfDisputes, checksOfWonDisputes } from '../audit/disputes.ts'
import { AMOUNT_SIDE } from '../reconciliation/side.ts'
import type { Resource } from '../resource.ts'
import { disputeSchema, disputeStatus } from './dispute.ts'

const movedAmount = (description: string) => z.int().nullish().meta({ description, example: 0 })

const disputeSide = z.object({
  ...AMOUNT_SIDE,
  amount_withdrawn_minor: movedAmount('The amount taken from the balance; for disputes only.'),
  amount_reinstated_minor: movedAmount('The amount that came back to the balance; for disputes only.'),
})

/** Each status agrees only with itself: the processor's statuses are translated when they are read. */
const agreeing_statuses = Object.fromEntries(disputeStatus.options.map((status) => [status, [status]]))

export const disputeResource = {
  table: 'disputes',
  parent: { resource: 'payment', id_column: 'payment_id' },
  view: disputeSchema,
  // Disputes are reported by events of the payment.
  events: {},
  transfer_kinds: ['dispute_withdrawn', 'dispute_reinstated'],
  under_way: {
    open: (sql) => sql`p.closed_at is null`,
    statuses: ['needs_response', 'under_review', 'warning'],
  },
  at_provider: {
    scope: 'payments:read',
    provider: 'processor',
    reference: 'processor_reference',
    side: disputeSide,
    agreeing_statuses,
  },
  checks: checksOfDisputes,
  checks_by_tenant: checksOfWonDisputes,
} as const satisfies Resource

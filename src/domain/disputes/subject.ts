// What the rest of the system needs to know of disputes; how one is compared with the processor's record of it.
import { z } from 'zod'
import { checksOfDisputes, checksOfWonDisputes } from '../audit/disputes.ts'
import { AMOUNT_SIDE } from '../reconciliation/side.ts'
import type { Subject } from '../subject.ts'
import { disputeSchema, disputeStatus } from './dispute.ts'

const moved = (description: string) => z.int().nullish().meta({ description, example: 0 })

const disputeSide = z.object({
  ...AMOUNT_SIDE,
  amount_withdrawn_minor: moved('The amount taken from the balance; for disputes only.'),
  amount_reinstated_minor: moved('What of it came back; of disputes only.'),
})

/** Its statuses are the processor's, in our words. */
const disputeAgrees = Object.fromEntries(disputeStatus.options.map((status) => [status, [status]]))

export const disputeSubject = {
  table: 'disputes',
  part_of: { noun: 'payment', by: 'payment_id' },
  view: disputeSchema,
  // The payment's events tell of it.
  events: {},
  posts: ['dispute_withdrawn', 'dispute_reinstated'],
  under_way: {
    open: (sql) => sql`p.closed_at is null`,
    statuses: ['needs_response', 'under_review', 'warning'],
  },
  at_provider: {
    scope: 'payments:read',
    provider: 'processor',
    reference: 'processor_reference',
    side: disputeSide,
    agrees: disputeAgrees,
  },
  checks: checksOfDisputes,
  checks_by_tenant: checksOfWonDisputes,
} as const satisfies Subject

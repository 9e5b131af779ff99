// What the rest of the system needs to know of refunds.
import { z } from 'zod'
import { checksOfRefunds } from '../audit/refunds.ts'
import { AMOUNT_SIDE, sameAmount } from '../reconciliation/side.ts'
import { wasTaken, type Subject } from '../subject.ts'
import { REFUND_EVENTS, refundSchema } from './refund.ts'

export const refundSubject = {
  table: 'refunds',
  part_of: { noun: 'payment', by: 'payment_id' },
  view: refundSchema,
  events: REFUND_EVENTS,
  posts: ['refund', 'refund_failed'],
  under_way: {
    open: (sql) => sql`p.status = 'pending'`,
    left_to_provider: (sql) => sql`(p.imported or ${wasTaken(sql, 'refund', sql`p.payment_id`)})`,
  },
  at_provider: {
    scope: 'payments:read',
    provider: 'processor',
    reference: 'processor_reference',
    side: z.object(AMOUNT_SIDE),
    tellsNothing: (sql) => sql`${sameAmount(sql)} and said.status in ('pending', r.status)`,
    agrees: { pending: ['pending'], succeeded: ['succeeded'], failed: ['failed'] },
  },
  checks: checksOfRefunds,
} as const satisfies Subject

// The jobs of refunds.
import { z } from 'zod'
import { PAYMENTS } from '#core/config/providers.ts'
import { defineJob } from './job.ts'
import { processorCall } from './payments.ts'

export const createRefund = defineJob({
  name: 'refund.create',
  queue: 'payments',
  payload: z.object({ payment_id: z.uuid(), refund_id: z.uuid() }),
  call: {
    ...processorCall,
    operation: 'refund',
    held_with: 'payouts',
    status: 'pending',
    makes: { id: PAYMENTS.reference, example: PAYMENTS.examples.refund },
    request: z.strictObject({
      payment_reference: z.string(),
      amount_minor: z.int(),
      reason: z.string().nullable(),
      metadata: z.record(z.string(), z.string()),
    }),
  },
})

export const refundJobs = { createRefund }

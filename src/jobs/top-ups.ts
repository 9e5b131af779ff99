// The jobs of top-ups. They share the queue of payments: pausing payouts must not stop top-ups of the balance.
import { z } from 'zod'
import { TOP_UPS } from '#core/config/providers.ts'
import { defineJob } from './job.ts'
import { processorCall } from './payments.ts'

export const createTopUp = defineJob({
  name: 'top_up.create',
  queue: 'payments',
  payload: z.object({ top_up_id: z.uuid() }),
  call: {
    ...processorCall,
    operation: 'top_up',
    held_with: 'creations',
    status: 'pending',
    makes: { id: TOP_UPS.reference, example: TOP_UPS.examples.top_up },
    request: z.strictObject({
      amount_minor: z.int(),
      /** In lower case. */
      currency: z.string(),
      description: z.string().nullable(),
      /** The token of the source of the money, sealed for its context; removed when the call finishes. */
      sealed: z.object({ source: z.string().optional() }).optional(),
      metadata: z.record(z.string(), z.string()),
    }),
  },
})

export const topUpJobs = { createTopUp }

// The jobs of top-ups. They share the queue of payments: a pause of payouts must not hold what fills the balance.
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
    status: 'pending',
    makes: { id: TOP_UPS.reference, example: TOP_UPS.examples.top_up },
    request: z.strictObject({
      amount_minor: z.int(),
      /** In lower case. */
      currency: z.string(),
      description: z.string().nullable(),
      /** The token of where the money comes from, sealed for its place; removed when the call is over. */
      sealed: z.object({ source: z.string().optional() }).optional(),
      metadata: z.record(z.string(), z.string()),
    }),
  },
})

export const topUpJobs = { createTopUp }

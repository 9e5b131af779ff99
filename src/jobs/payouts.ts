// The jobs of payouts. They have their own queue, so that pausing it stops every call that pays out.
import { z } from 'zod'
import { PAYOUTS } from '#core/config/providers.ts'
import { defineJob } from './job.ts'
import { processorCall } from './payments.ts'

const payout = z.object({ payout_id: z.uuid() })

export const createPayout = defineJob({
  name: 'payout.create',
  queue: 'payouts',
  payload: payout,
  call: {
    ...processorCall,
    operation: 'payout',
    held_with: 'payouts',
    status: 'pending',
    makes: { id: PAYOUTS.reference, example: PAYOUTS.examples.payout },
    request: z.strictObject({
      destination: z.string(),
      amount_minor: z.int(),
      /** In lower case. */
      currency: z.string(),
      description: z.string().nullable(),
      metadata: z.record(z.string(), z.string()),
    }),
  },
})

export const cancelPayout = defineJob({
  name: 'payout.cancel',
  queue: 'payouts',
  payload: payout,
  call: {
    ...processorCall,
    operation: 'cancel_payout',
    held_with: null,
    status: 'processing',
    makes: null,
    request: z.strictObject({ reference: z.string() }),
  },
})

export const payoutJobs = { createPayout, cancelPayout }

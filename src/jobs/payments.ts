// The jobs of payments.
import { z } from 'zod'
import { PAYMENTS } from '#core/config/providers.ts'
import { defineJob } from './job.ts'

/** The settings of all calls to the processor. */
export const processorCall = {
  provider: PAYMENTS.provider,
  on_ambiguous: 'resend_same_key',
  deadline_ms: 15_000,
} as const

const payment = z.object({ payment_id: z.uuid() })

/**
 * The payment had the requested status before the request: the call only shows whether an earlier request with this key
 * had the effect.
 */
const confirms = z.literal(true).optional()
const change = payment.extend({ confirms })
/** Also in the request: a worker that does not know the field would take any key for that of the earlier request. */
const confirmation = { confirms }

export const authorizePayment = defineJob({
  name: 'payment.authorize',
  queue: 'payments',
  payload: payment,
  call: {
    ...processorCall,
    operation: 'authorize',
    held_with: 'creations',
    status: 'pending',
    makes: { id: PAYMENTS.reference, example: PAYMENTS.examples.payment },
    request: z.strictObject({
      amount_minor: z.int(),
      currency: z.string(),
      description: z.string().nullable(),
      return_url: z.string().nullable(),
      /** Tokens, each sealed for its context; removed when the call finishes. */
      sealed: z.object({ payment_method: z.string().optional() }).optional(),
      metadata: z.record(z.string(), z.string()),
    }),
  },
})

export const capturePayment = defineJob({
  name: 'payment.capture',
  queue: 'payments',
  payload: change,
  call: {
    ...processorCall,
    operation: 'capture',
    held_with: null,
    status: 'capturing',
    makes: null,
    request: z.strictObject({ reference: z.string(), amount_minor: z.int(), ...confirmation }),
  },
})

export const cancelPayment = defineJob({
  name: 'payment.cancel',
  queue: 'payments',
  payload: change,
  call: {
    ...processorCall,
    operation: 'cancel',
    held_with: null,
    status: 'canceling',
    makes: null,
    request: z.strictObject({ reference: z.string(), reason: z.string().nullable(), ...confirmation }),
  },
})

/** Cancels a duplicate hold at the processor. The payment and its own hold do not change. */
export const cancelDuplicatePayment = defineJob({
  name: 'payment.cancel_duplicate',
  queue: 'payments',
  payload: payment,
  call: {
    ...processorCall,
    operation: 'cancel_duplicate',
    held_with: null,
    status: null,
    makes: null,
    request: z.strictObject({ reference: z.string() }),
  },
})

export const paymentJobs = { authorizePayment, capturePayment, cancelPayment, cancelDuplicatePayment }

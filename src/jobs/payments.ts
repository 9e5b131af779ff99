// The jobs of payments.
import { z } from 'zod'
import { defineJob } from './job.ts'

const payment = z.object({ payment_id: z.uuid() })

export const authorizePayment = defineJob({
  name: 'payment.authorize',
  queue: 'payments',
  payload: payment,
  call: {
    operation: 'authorize',
    request: z.object({
      amount_minor: z.int(),
      currency: z.string(),
      description: z.string().nullable(),
      return_url: z.string().nullable(),
      /** Tokens, each sealed for its place; removed when the call is over. */
      sealed: z.object({ payment_method: z.string().optional() }).optional(),
      /** Unencrypted: only in rows that an earlier version wrote. */
      payment_method: z.string().nullish(),
      metadata: z.record(z.string(), z.string()),
    }),
  },
})

export const capturePayment = defineJob({
  name: 'payment.capture',
  queue: 'payments',
  payload: payment,
  call: {
    operation: 'capture',
    request: z.object({ reference: z.string(), amount_minor: z.int() }),
  },
})

export const cancelPayment = defineJob({
  name: 'payment.cancel',
  queue: 'payments',
  payload: payment,
  call: {
    operation: 'cancel',
    request: z.object({ reference: z.string(), reason: z.string().nullable() }),
  },
})

export const paymentJobs = { authorizePayment, capturePayment, cancelPayment }

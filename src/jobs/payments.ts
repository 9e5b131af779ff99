// The work that payments and refunds ask for.
import { z } from 'zod'
import { defineJob } from './job.ts'

const payment = z.object({ payment_id: z.uuid() })

export const authorizePayment = defineJob({
  name: 'payment.authorize',
  queue: 'payments',
  payload: payment,
  call: { operation: 'authorize' },
})
export const capturePayment = defineJob({
  name: 'payment.capture',
  queue: 'payments',
  payload: payment,
  call: { operation: 'capture' },
})
export const cancelPayment = defineJob({
  name: 'payment.cancel',
  queue: 'payments',
  payload: payment,
  call: { operation: 'cancel' },
})
export const createRefund = defineJob({
  name: 'refund.create',
  queue: 'payments',
  payload: z.object({ payment_id: z.uuid(), refund_id: z.uuid() }),
  call: { operation: 'refund' },
})

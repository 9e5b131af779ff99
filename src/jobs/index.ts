// The registry: every job there is. A job without a handler does not compile.
import type { z } from 'zod'
import { authorizePayment, cancelPayment, capturePayment, createRefund } from './payments.ts'
import { applyNotification } from './webhooks.ts'

export const JOBS = {
  [authorizePayment.name]: authorizePayment,
  [capturePayment.name]: capturePayment,
  [cancelPayment.name]: cancelPayment,
  [createRefund.name]: createRefund,
  [applyNotification.name]: applyNotification,
} as const

export type JobName = keyof typeof JOBS

/** What this version can perform. During a deployment another may ask for more. */
export const JOB_NAMES = Object.keys(JOBS) as readonly JobName[]

export type PayloadOf<Name extends JobName> = z.output<(typeof JOBS)[Name]['payload']>

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

/** False: the job was asked for by another version, during a deployment. */
export function isJobName(name: string): name is JobName {
  return Object.hasOwn(JOBS, name)
}

export type PayloadOf<Name extends JobName> = z.output<(typeof JOBS)[Name]['payload']>

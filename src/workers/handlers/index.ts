// The registry of handlers, by the name of their job. A job name without a handler is a compile error.
import assert from 'node:assert/strict'
import type { JobName } from '#jobs/index.ts'
import { aiTaskHandlers } from './ai-tasks/jobs.ts'
import { deliveryHandlers } from './deliveries/jobs.ts'
import { duplicateHandlers } from './duplicates/jobs.ts'
import type { Handler } from './handler.ts'
import { messageHandlers } from './messages/jobs.ts'
import { notificationHandlers } from './notifications/jobs.ts'
import { paymentHandlers } from './payments/jobs.ts'
import { payoutHandlers } from './payouts/jobs.ts'
import { refundHandlers } from './refunds/jobs.ts'
import { topUpHandlers } from './top-ups/jobs.ts'
import { verificationHandlers } from './verifications/jobs.ts'

const HANDLERS: { [Name in JobName]: Handler<Name> } = {
  ...paymentHandlers,
  ...payoutHandlers,
  ...refundHandlers,
  ...topUpHandlers,
  ...verificationHandlers,
  ...duplicateHandlers,
  ...aiTaskHandlers,
  ...messageHandlers,
  ...notificationHandlers,
  ...deliveryHandlers,
}

const byName = new Map<string, Handler>(Object.entries(HANDLERS))

/** The handler of a claimed job. */
export function handlerOf(name: string): Handler {
  const handler = byName.get(name)
  assert(handler !== undefined, `a job without a handler was claimed: ${name}`)
  return handler
}

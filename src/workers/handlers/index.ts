// The registry of handlers, by the name of their job. A job without a handler does not compile.
import assert from 'node:assert/strict'
import type { JobName } from '#jobs/index.ts'
import { aiTaskHandlers } from './ai-tasks.ts'
import { deliveryHandlers } from './deliveries.ts'
import { duplicateHandlers } from './duplicates.ts'
import type { Handler } from './handler.ts'
import { messageHandlers } from './messages.ts'
import { notificationHandlers } from './notifications.ts'
import { paymentHandlers } from './payments.ts'
import { payoutHandlers } from './payouts.ts'
import { refundHandlers } from './refunds.ts'
import { topUpHandlers } from './top-ups.ts'
import { verificationHandlers } from './verifications.ts'

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
  assert(handler !== undefined, 'only jobs of known names are claimed')
  return handler
}

// What events tell, by type.

import type {
  AiTaskEventData,
  CustomerEventData,
  Merchant,
  MessageEventData,
  MessageTemplateEventData,
  PaymentEventData,
  Payout,
  Recipient,
  Refund,
  SuppressionEventData,
  TopUp,
  TruncatedData,
  VerificationEventData,
  WebhookEndpointEventData,
} from './schemas.ts'

/** The resource that an event of this type is about, as it then stood. */
export interface EventDataByType {
  /** A customer was created. */
  'customer.created': CustomerEventData
  /** A customer was changed. */
  'customer.updated': CustomerEventData
  /** A customer was deleted; what was personal is erased here and in earlier events. */
  'customer.deleted': CustomerEventData
  /** A recipient was created. */
  'recipient.created': Recipient
  /** A recipient was changed. */
  'recipient.updated': Recipient
  /** A recipient was archived: no payout goes there any more. */
  'recipient.archived': Recipient
  /** A merchant was created. */
  'merchant.created': Merchant
  /** A merchant was changed. */
  'merchant.updated': Merchant
  /** A merchant was archived: no new payment can name it. */
  'merchant.archived': Merchant
  /** A payment was asked for; its authorization is under way. */
  'payment.created': PaymentEventData
  /** The buyer has to act. */
  'payment.requires_action': PaymentEventData
  /** The money is held. */
  'payment.authorized': PaymentEventData
  /** A try of the buyer failed; another may follow. */
  'payment.authorization_failed': PaymentEventData
  /** The hold lapses within a day. */
  'payment.capture_expiring': PaymentEventData
  /** The money was taken. */
  'payment.captured': PaymentEventData
  /** A capture failed; the payment is as it was before. */
  'payment.capture_failed': PaymentEventData
  /** The hold was released, or the payment given up. */
  'payment.canceled': PaymentEventData
  /** A cancellation failed; the payment is as it was before. */
  'payment.cancel_failed': PaymentEventData
  /** The authorization failed for good. */
  'payment.failed': PaymentEventData
  /** The buyer's bank disputes it, or inquires about it. */
  'payment.disputed': PaymentEventData
  /** A dispute was won; what was taken for it is yours again. */
  'payment.dispute_won': PaymentEventData
  /** A dispute was lost; it may still be won by an appeal. */
  'payment.dispute_lost': PaymentEventData
  /** An inquiry is over, or a dispute was prevented. */
  'payment.dispute_closed': PaymentEventData
  /** A refund was asked for, or made at the processor. */
  'refund.created': Refund
  /** The money is on its way to the buyer. */
  'refund.succeeded': Refund
  /** The money stays; also a refund that succeeded can fail. */
  'refund.failed': Refund
  /** A payout was asked for, and its amount is reserved. */
  'payout.created': Payout
  /** The processor has taken it. */
  'payout.processing': Payout
  /** It was paid. A transfer is paid as soon as it is taken. */
  'payout.paid': Payout
  /** It was refused, came back after all, or was failed by hand. */
  'payout.failed': Payout
  /** It was stopped in time. */
  'payout.canceled': Payout
  /** A top-up was asked for. */
  'top_up.created': TopUp
  /** The money is in the balance. */
  'top_up.succeeded': TopUp
  /** The money did not come. */
  'top_up.failed': TopUp
  /** It was canceled at the processor before the money came. */
  'top_up.canceled': TopUp
  /** The money came and was taken back; the balance may be negative. */
  'top_up.reversed': TopUp
  /** A verification was asked for. */
  'kyc.created': VerificationEventData
  /** It waits for the person, at first or once more. */
  'kyc.requires_input': VerificationEventData
  /** The provider looks at what the person showed. */
  'kyc.processing': VerificationEventData
  /** It was approved, by the provider or by hand. */
  'kyc.approved': VerificationEventData
  /** It was rejected, by the provider or by hand, or the provider did not take it. */
  'kyc.rejected': VerificationEventData
  /** An AI task was asked for. */
  'ai_task.created': AiTaskEventData
  /** It is done: retrieve it for its output. */
  'ai_task.succeeded': AiTaskEventData
  /** It failed for good. */
  'ai_task.failed': AiTaskEventData
  /** It was canceled. */
  'ai_task.canceled': AiTaskEventData
  /** A message was accepted; `status` says whether it is queued, scheduled or suppressed. */
  'message.created': MessageEventData
  /** The provider took it. */
  'message.sent': MessageEventData
  /** The provider says that it arrived. */
  'message.delivered': MessageEventData
  /** The provider took it, and it did not arrive. */
  'message.undelivered': MessageEventData
  /** The provider did not take it. */
  'message.failed': MessageEventData
  /** Whether the provider took it is not known. */
  'message.unknown': MessageEventData
  /** All of its recipients were suppressed before it could leave. */
  'message.suppressed': MessageEventData
  /** It was canceled before it left. */
  'message.canceled': MessageEventData
  /** It came back from a recipient. */
  'message.bounced': MessageEventData
  /** A recipient complained about it. */
  'message.complained': MessageEventData
  /** A template was made. */
  'template.created': MessageTemplateEventData
  /** A template was changed. */
  'template.updated': MessageTemplateEventData
  /** A template was deleted. */
  'template.deleted': MessageTemplateEventData
  /** An address or number gets nothing any more. */
  'suppression.created': SuppressionEventData
  /** It gets messages again. */
  'suppression.deleted': SuppressionEventData
  /** An endpoint was made. */
  'webhook_endpoint.created': WebhookEndpointEventData
  /** An endpoint was changed, or its secret was rotated. */
  'webhook_endpoint.updated': WebhookEndpointEventData
  /** Nothing is sent to an endpoint any more: it is gone, it only failed, or somebody disabled it. */
  'webhook_endpoint.disabled': WebhookEndpointEventData
  /** Events are sent to an endpoint again. */
  'webhook_endpoint.enabled': WebhookEndpointEventData
  /** An endpoint was deleted. */
  'webhook_endpoint.deleted': WebhookEndpointEventData
}

/** What can happen. There can be new types at any time: pass over those that you do not know. */
export type EventType = keyof EventDataByType

/** An event of the feed. `event.type` tells what its `data` are. */
export type FeedEvent = { [Type in EventType]: FeedEventOf<Type> }[EventType]

/** An event of the feed, of this type. */
export interface FeedEventOf<Type extends EventType> {
  /** The id of the event. */
  id: string
  /**
   * Its place in the feed of the tenant, from 1 and without a gap. Null for a moment after it happened,
   * and of events from before there was a feed.
   */
  sequence: number | null
  /** What happened. */
  type: Type
  /** What it happened to. */
  subject_type: string
  /** The id of that resource. */
  subject_id: string
  /**
   * The resource as it then stood. What it holds, each type says under *Webhooks* in this document. What
   * was personal is erased when its customer is deleted.
   */
  data: EventDataByType[Type]
  /** When it happened. */
  created_at: string
}

/** An event that came as a webhook. `event.type` tells what its `data` are. */
export type WebhookEvent = { [Type in EventType]: WebhookEventOf<Type> }[EventType]

/** An event that came as a webhook, of this type. */
export interface WebhookEventOf<Type extends EventType> {
  /** The id of the event; `webhook-id` is the same. */
  id: string
  /** What happened. */
  type: Type
  /** When it happened. */
  timestamp: string
  /** Its number among the events of the tenant, without gaps. `null` in a test event. */
  sequence: number | null
  /** Whose event it is. */
  tenant_id: string
  data: EventDataByType[Type] | TruncatedData
}

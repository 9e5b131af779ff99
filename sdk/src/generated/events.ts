// Events and their data, by type.

import type {
  AiTaskEventData,
  CustomerEventData,
  FeedRestart,
  LostRequest,
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

/** The data of each event type: a snapshot of its resource. */
export interface EventDataByType {
  /** A customer was created. */
  'customer.created': CustomerEventData
  /** A customer was updated. */
  'customer.updated': CustomerEventData
  /** A customer was deleted; personal data is erased here and in earlier events. */
  'customer.deleted': CustomerEventData
  /** A recipient was created. */
  'recipient.created': Recipient
  /** A recipient was updated. */
  'recipient.updated': Recipient
  /** A recipient was archived: no new payout can go to it. */
  'recipient.archived': Recipient
  /** A merchant was created. */
  'merchant.created': Merchant
  /** A merchant was updated. */
  'merchant.updated': Merchant
  /** A merchant was archived: no new payment can name it. */
  'merchant.archived': Merchant
  /** A payment was created; its authorization is in progress. */
  'payment.created': PaymentEventData
  /** A payment was lost here and made again from the record of the processor. */
  'payment.recovered': PaymentEventData
  /** The buyer has to act. */
  'payment.requires_action': PaymentEventData
  /** The money is held. */
  'payment.authorized': PaymentEventData
  /** The buyer's attempt failed; another may follow. */
  'payment.authorization_failed': PaymentEventData
  /** The hold expires within a day. */
  'payment.capture_expiring': PaymentEventData
  /** The money was captured. */
  'payment.captured': PaymentEventData
  /** A capture failed; the payment is unchanged. */
  'payment.capture_failed': PaymentEventData
  /** The hold was released, or the payment was canceled before it was authorized. */
  'payment.canceled': PaymentEventData
  /** A cancellation failed; the payment is unchanged. */
  'payment.cancel_failed': PaymentEventData
  /** The authorization failed; this is final. */
  'payment.failed': PaymentEventData
  /** The buyer's bank disputes the payment, or inquires about it. */
  'payment.disputed': PaymentEventData
  /** A dispute was won; the money that was taken for it is yours again. */
  'payment.dispute_won': PaymentEventData
  /** A dispute was lost; an appeal may still win it. */
  'payment.dispute_lost': PaymentEventData
  /** An inquiry was closed, or a dispute was prevented. */
  'payment.dispute_closed': PaymentEventData
  /** A refund was created, here or at the processor. */
  'refund.created': Refund
  /** A refund was lost here and made again from the record of the processor. */
  'refund.recovered': Refund
  /** The money is on its way to the buyer. */
  'refund.succeeded': Refund
  /** The money stays with you. A refund that succeeded can also fail. */
  'refund.failed': Refund
  /** A payout was created, and its amount was reserved. */
  'payout.created': Payout
  /** A payout was lost here and made again from the record of the processor. */
  'payout.recovered': Payout
  /** The processor has accepted it. */
  'payout.processing': Payout
  /** It was paid. A transfer is paid as soon as it is accepted. */
  'payout.paid': Payout
  /** It was refused, came back, or was failed manually. */
  'payout.failed': Payout
  /** The processor paid it although a manual failure was requested: the request is void. */
  'payout.fail_overtaken': Payout
  /** It was stopped in time. */
  'payout.canceled': Payout
  /** A top-up was created. */
  'top_up.created': TopUp
  /** A top-up was lost here and made again from the record of the processor. */
  'top_up.recovered': TopUp
  /** The money is in the balance. */
  'top_up.succeeded': TopUp
  /** The money did not come. */
  'top_up.failed': TopUp
  /** The top-up was canceled at the processor before the money came. */
  'top_up.canceled': TopUp
  /** The money came and was taken back; the balance may be negative. */
  'top_up.reversed': TopUp
  /** A verification was created. */
  'kyc.created': VerificationEventData
  /** A verification was lost here and made again from the record of the provider. */
  'kyc.recovered': VerificationEventData
  /** It waits for the person, for the first time or again. */
  'kyc.requires_input': VerificationEventData
  /** The provider is checking what the person submitted. */
  'kyc.processing': VerificationEventData
  /** It was approved, by the provider or manually. */
  'kyc.approved': VerificationEventData
  /** It was rejected, by the provider or manually, or the provider did not accept it. */
  'kyc.rejected': VerificationEventData
  /** An AI task was created. */
  'ai_task.created': AiTaskEventData
  /** The task succeeded; `output` is the result. */
  'ai_task.succeeded': AiTaskEventData
  /** The task failed. */
  'ai_task.failed': AiTaskEventData
  /** The task was canceled. */
  'ai_task.canceled': AiTaskEventData
  /** A message was accepted; `status` shows whether it is queued, scheduled or suppressed. */
  'message.created': MessageEventData
  /** The provider accepted it. */
  'message.sent': MessageEventData
  /** The provider reported that it arrived. */
  'message.delivered': MessageEventData
  /** The provider accepted it, but it did not arrive. */
  'message.undelivered': MessageEventData
  /** The provider did not accept it. */
  'message.failed': MessageEventData
  /** It is not known whether the provider accepted it. */
  'message.unknown': MessageEventData
  /** All of its recipients were suppressed before it could be sent. */
  'message.suppressed': MessageEventData
  /** It was canceled before it was sent. */
  'message.canceled': MessageEventData
  /** It bounced for a recipient. */
  'message.bounced': MessageEventData
  /** A recipient complained about it. */
  'message.complained': MessageEventData
  /** The server accepted or refused deferred recipients, or they were suppressed meanwhile. */
  'message.recipients_settled': MessageEventData
  /** You received an SMS from a number to which you sent an SMS. */
  'message.received': MessageEventData
  /** A template was created. */
  'template.created': MessageTemplateEventData
  /** A template was updated. */
  'template.updated': MessageTemplateEventData
  /** A template was deleted. */
  'template.deleted': MessageTemplateEventData
  /** An address or number no longer gets messages. */
  'suppression.created': SuppressionEventData
  /** The address or number gets messages again. */
  'suppression.deleted': SuppressionEventData
  /** An endpoint was created. */
  'webhook_endpoint.created': WebhookEndpointEventData
  /** An endpoint was updated, or its secret was rotated. */
  'webhook_endpoint.updated': WebhookEndpointEventData
  /** An endpoint was disabled: it answered 410, every attempt failed for five days, or you disabled it. */
  'webhook_endpoint.disabled': WebhookEndpointEventData
  /** An endpoint was enabled again. */
  'webhook_endpoint.enabled': WebhookEndpointEventData
  /** An endpoint was deleted. */
  'webhook_endpoint.deleted': WebhookEndpointEventData
  /** The database lost its latest changes, and the feed continues with a higher sequence. */
  'feed.restarted': FeedRestart
  /**
   * The database lost an accepted request, and no provider lists what it made. Repeat it with its key;
   * an email that may have been sent then becomes `unknown`.
   */
  'request.lost': LostRequest
}

/** Types of events. New types can be added at any time: ignore types that you do not handle. */
export type EventType = keyof EventDataByType

/** An event of the feed. `event.type` narrows the type of `event.data`. */
export type FeedEvent = { [Type in EventType]: FeedEventOf<Type> }[EventType]

/** An event of the feed with this type. */
export interface FeedEventOf<Type extends EventType> {
  /** The id of the event. */
  id: string
  /**
   * Its position in the tenant's feed, from 1; the next event has the next number, except after a
   * restart of the feed. Null until it is assigned, a moment after the event.
   */
  sequence: number | null
  /** What happened. */
  type: Type
  /** The type of the resource that changed. */
  subject_type: Type extends `${infer ResourceName}.${string}` ? ResourceName : never
  /** The id of the resource. */
  subject_id: string
  /**
   * The resource as it was then. Personal data is erased when the customer is deleted; addresses, texts
   * and outputs are null once they are erased from their resource.
   */
  data: EventDataByType[Type]
  /** When the event happened. */
  created_at: string
  /** `true` in live mode; `false` in test mode, which moves no money. */
  livemode: boolean
}

/** A webhook event. `event.type` narrows the type of `event.data`. */
export type WebhookEvent = { [Type in EventType]: WebhookEventOf<Type> }[EventType]

/** A webhook event with this type. */
export interface WebhookEventOf<Type extends EventType> {
  /** The id of the event, as in the header `webhook-id`. */
  id: string
  /** The event type. */
  type: Type
  /** When the event happened. */
  timestamp: string
  /**
   * The number of the event in the feed of the tenant, without gaps except restarts of the feed. `null`
   * in a test event.
   */
  sequence: number | null
  /** The tenant to which the event belongs. */
  tenant_id: string
  /** `true` in live mode; `false` in test mode, which moves no money. */
  livemode: boolean
  /** The resource at the time of the event. */
  data: EventDataByType[Type] | TruncatedData
}

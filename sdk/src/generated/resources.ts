// All resources.

import { Resource } from '../resource.ts'
import { AiResource } from './resources/ai.ts'
import { ComplianceResource } from './resources/compliance.ts'
import { CustomersResource } from './resources/customers.ts'
import { DisputesResource } from './resources/disputes.ts'
import { EventsResource } from './resources/events.ts'
import { IdempotencyKeysResource } from './resources/idempotency-keys.ts'
import { MerchantsResource } from './resources/merchants.ts'
import { MessagesResource } from './resources/messages.ts'
import { PaymentsResource } from './resources/payments.ts'
import { RefundsResource } from './resources/refunds.ts'
import { PayoutsResource } from './resources/payouts.ts'
import { RecipientsResource } from './resources/recipients.ts'
import { ReconciliationResource } from './resources/reconciliation.ts'
import { TestClockResource } from './resources/test-clock.ts'
import { WalletResource } from './resources/wallet.ts'
import { WebhookDeliveriesResource } from './resources/webhook-deliveries.ts'
import { WebhookEndpointsResource } from './resources/webhook-endpoints.ts'
import { WebhookRecoveriesResource } from './resources/webhook-recoveries.ts'

/** One member for each resource of the API. */
export class Resources extends Resource {
  readonly ai = new AiResource(this.client)
  readonly compliance = new ComplianceResource(this.client)
  /** The people and companies that pay. */
  readonly customers = new CustomersResource(this.client)
  /** Money that a buyer's bank asks back from you. */
  readonly disputes = new DisputesResource(this.client)
  /** Everything that happened to your resources, in one order. */
  readonly events = new EventsResource(this.client)
  /** The outcome of a request whose answer was lost. */
  readonly idempotencyKeys = new IdempotencyKeysResource(this.client)
  /** The businesses you take payments for. */
  readonly merchants = new MerchantsResource(this.client)
  /** Send email and SMS, singly or in batches. */
  readonly messages = new MessagesResource(this.client)
  /**
   * Authorize, capture and cancel payments. Creating a payment holds the money; capturing it takes the
   * money.
   */
  readonly payments = new PaymentsResource(this.client)
  /** Give money back, in full or in parts. */
  readonly refunds = new RefundsResource(this.client)
  /** Pay a recipient from your balance. The amount is reserved at once. */
  readonly payouts = new PayoutsResource(this.client)
  /** The people and companies you pay. */
  readonly recipients = new RecipientsResource(this.client)
  /** Known differences between our books and the processor's. */
  readonly reconciliation = new ReconciliationResource(this.client)
  /** Move the time of your tenant in test mode. */
  readonly testClock = new TestClockResource(this.client)
  /** Your balances and their transactions. */
  readonly wallet = new WalletResource(this.client)
  /** The deliveries of events to your endpoints, with all attempts. */
  readonly webhookDeliveries = new WebhookDeliveriesResource(this.client)
  /** URLs that your events are sent to. */
  readonly webhookEndpoints = new WebhookEndpointsResource(this.client)
  readonly webhookRecoveries = new WebhookRecoveriesResource(this.client)
}

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
import { WalletResource } from './resources/wallet.ts'
import { WebhookDeliveriesResource } from './resources/webhook-deliveries.ts'
import { WebhookEndpointsResource } from './resources/webhook-endpoints.ts'
import { WebhookRecoveriesResource } from './resources/webhook-recoveries.ts'

/** One member for each resource of the API. */
export class Resources extends Resource {
  readonly ai = new AiResource(this.client)
  readonly compliance = new ComplianceResource(this.client)
  /** Records of the people and companies that pay. */
  readonly customers = new CustomersResource(this.client)
  /** Money that a buyer's bank asks back. */
  readonly disputes = new DisputesResource(this.client)
  /** What happened to your resources, in one order. */
  readonly events = new EventsResource(this.client)
  /** What became of a request whose answer was lost. */
  readonly idempotencyKeys = new IdempotencyKeysResource(this.client)
  /** On whose behalf you take payments. */
  readonly merchants = new MerchantsResource(this.client)
  /** Email and SMS, one by one or in batches. */
  readonly messages = new MessagesResource(this.client)
  /** Authorize, capture, cancel: money is held when a payment is created and taken when it is captured. */
  readonly payments = new PaymentsResource(this.client)
  /** Money that goes back, all or in parts. */
  readonly refunds = new RefundsResource(this.client)
  /** Money that leaves your balance for a recipient. Its amount is reserved at once. */
  readonly payouts = new PayoutsResource(this.client)
  /** Whom payouts go to: a name and a token of the processor. */
  readonly recipients = new RecipientsResource(this.client)
  /** Where our books and the processor are known to differ. */
  readonly reconciliation = new ReconciliationResource(this.client)
  /** Your balances, and what moved them. */
  readonly wallet = new WalletResource(this.client)
  /** Events on their way to your endpoints, attempt by attempt. */
  readonly webhookDeliveries = new WebhookDeliveriesResource(this.client)
  /** Where your events are sent to. */
  readonly webhookEndpoints = new WebhookEndpointsResource(this.client)
  readonly webhookRecoveries = new WebhookRecoveriesResource(this.client)
}

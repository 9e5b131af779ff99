// The payment processor on Stripe.
import type { Stripe } from 'stripe'
import { nullIfMissing, withoutToken } from './classify.ts'
import type {
  AuthorizeCall,
  CancelCall,
  PaymentProcessor,
  ProcessorPayment,
  RefundCall,
} from '../payments.ts'
import { assertAnswer, isAmount, isId, PAYMENT_PROGRESS, toPayment, toRefund } from './answers.ts'
import { toDispute } from './disputes.ts'
import { idempotencyOptions, openStripe, type StripeClient, type StripeOptions } from './client.ts'
import { assertClockInSync, findInList, pagesOf, type Pages } from './lists.ts'
import { objectLists } from './objects.ts'
import { EVENT_TYPES, readEvent } from './events.ts'
import { createSharedReads } from './shared-reads.ts'

/** The listed payments of a time range. `ids`: the ids of payment intents, by `sluice_payment_id`. */
type ListedPayments = { ids: Map<string, string[]>; clock_skew_s: number }

/**
 * The payment processor. The parameters of a call that changes something depend only on its request: under one
 * idempotency key Stripe accepts only identical parameters.
 */
export function stripeProcessor(options: StripeOptions): PaymentProcessor & { close(): Promise<void> } {
  const client = openStripe(options)
  const { findAccount, close } = client
  return {
    name: 'stripe',
    get credentials() {
      return client.credentials
    },
    findAccount,
    event_retention_s: EVENT_RETENTION_S,
    ...writeCalls(client),
    ...findCalls(client),
    listPayment: createPaymentSearch(client),
    listEvents: createEventList(client),
    lists: objectLists(client, {
      payments: (range) => client.stripe.paymentIntents.list(range),
      refunds: (range) => client.stripe.refunds.list(range),
      disputes: (range) => client.stripe.disputes.list(range),
    }),
    close,
  }
}

function writeCalls({
  stripe,
  call,
}: StripeClient): Pick<PaymentProcessor, 'authorize' | 'capture' | 'cancel' | 'refund'> {
  return {
    authorize: async (request, key) =>
      withoutToken(
        request.payment_method,
        'the payment method',
        await call('authorize', async () =>
          toPayment(await stripe.paymentIntents.create(authorizeParams(request), idempotencyOptions(key))),
        ),
      ),
    capture: (request, key) =>
      call('capture', async () => {
        const params = { amount_to_capture: request.amount_minor, expand: ['latest_charge'] }
        return toPayment(
          await stripe.paymentIntents.capture(request.reference, params, idempotencyOptions(key)),
          request.reference,
        )
      }),
    cancel: (request, key) =>
      call('cancel', async () =>
        toPayment(
          await stripe.paymentIntents.cancel(
            request.reference,
            cancelParams(request),
            idempotencyOptions(key),
          ),
          request.reference,
        ),
      ),
    refund: (request, key) =>
      call('refund', async () =>
        toRefund(await stripe.refunds.create(refundParams(request), idempotencyOptions(key))),
      ),
  }
}

function findCalls({
  stripe,
  deadline_ms,
  call,
}: StripeClient): Pick<
  PaymentProcessor,
  'findPayment' | 'searchPayment' | 'findRefund' | 'searchRefund' | 'findDispute'
> {
  return {
    findPayment: (reference) =>
      call('find_payment', async () => {
        const found = await stripe.paymentIntents
          .retrieve(reference, { expand: ['latest_charge'] })
          .catch(nullIfMissing)
        return found && toPayment(found, reference)
      }),

    searchPayment: (payment_id) =>
      call('search_payment', async () => {
        const found = await stripe.paymentIntents.search({
          query: `metadata['sluice_payment_id']:'${payment_id.replaceAll(/[\\']/g, '\\$&')}'`,
          limit: 100,
          expand: ['data.latest_charge'],
        })
        assertAnswer(found.object === 'search_result' && Array.isArray(found.data), 'not a search result')
        return mostAdvanced(
          found.data
            .filter(({ metadata }) => hasPaymentId(metadata, payment_id))
            .map((each) => toPayment(each)),
        )
      }),

    findRefund: (reference) =>
      call('find_refund', async () => {
        const found = await stripe.refunds.retrieve(reference).catch(nullIfMissing)
        return found && toRefund(found, reference)
      }),

    searchRefund: (payment_reference, refund_id) =>
      call('search_refund', () =>
        findInList(
          deadline_ms,
          (page, options) => stripe.refunds.list({ payment_intent: payment_reference, ...page }, options),
          { name: 'sluice_refund_id', id: refund_id },
          (each) => toRefund(each),
        ),
      ),

    findDispute: (reference) =>
      call('find_dispute', async () => {
        const found = await stripe.disputes.retrieve(reference).catch(nullIfMissing)
        return found && toDispute(found, reference)
      }),
  }
}

/**
 * Searches for a payment in the list of the time range in which it was created. Concurrent searches in one time range
 * share one read of the list.
 */
function createPaymentSearch(client: StripeClient): PaymentProcessor['listPayment'] {
  const { stripe, call } = client
  const sharedRead = createSharedReads<ListedPayments>()
  return ({ payment_id, from_s, to_s, now_s }) =>
    call('list_payments', async () => {
      const started_at = performance.now()
      const created = { gte: Math.floor(from_s / 60) * 60, lte: Math.ceil(to_s / 60) * 60 }
      const read = async (payment_ids: ReadonlySet<string>) =>
        await readListing(client, created, payment_ids, now_s + (performance.now() - started_at) / 1000)
      const { ids, clock_skew_s } = await sharedRead(`${created.gte}-${created.lte}`, payment_id, read)
      const intent_ids = ids.get(payment_id) ?? []
      if (intent_ids.length === 0) assertClockInSync(clock_skew_s)
      const expand = { expand: ['latest_charge'] }
      const found = await Promise.all(intent_ids.map((id) => stripe.paymentIntents.retrieve(id, expand)))
      return mostAdvanced(found.map((each, nth) => toPayment(each, intent_ids[nth])))
    })
}

/** Reads the list of a time range and returns the payment intents with these payment ids. */
async function readListing(
  { stripe, deadline_ms }: StripeClient,
  created: { gte: number; lte: number },
  payment_ids: ReadonlySet<string>,
  now_s: number,
): Promise<ListedPayments> {
  const list: Pages<Stripe.PaymentIntent> = (page, { timeout }) =>
    stripe.paymentIntents.list({ created, ...page }, { timeout: Math.min(timeout, deadline_ms) })
  const ids = new Map<string, string[]>()
  let skew_s = 0
  for await (const { data, clock_skew_s } of pagesOf(LIST_TIMEOUT_MS, list, now_s)) {
    for (const { id, metadata } of data) {
      const payment_id = metadata?.['sluice_payment_id']
      if (payment_id !== undefined && payment_ids.has(payment_id))
        ids.set(payment_id, [...(ids.get(payment_id) ?? []), id])
    }
    skew_s = clock_skew_s
  }
  return { ids, clock_skew_s: skew_s }
}

function createEventList({ stripe, call }: StripeClient): PaymentProcessor['listEvents'] {
  return ({ from_s, to_s, after }) =>
    call('list_events', async () => {
      // Events of all types are requested: Stripe accepts at most 20 `types` in a request, and the pages of several
      // requests could not be merged in order.
      const page = await stripe.events.list({
        created: { gte: from_s, lte: to_s },
        limit: 100,
        ...(after !== null && { starting_after: after }),
      })
      assertAnswer(page.object === 'list' && Array.isArray(page.data), 'not a list')
      assertAnswer(
        page.data.every((each) => each.object === 'event' && isId(each.id, 'evt_') && isAmount(each.created)),
        'not events',
      )
      assertAnswer(!page.has_more || page.data.length > 0, 'an empty page that is not the last')
      return {
        events: page.data
          .filter(({ type }) => EVENT_TYPES.includes(type))
          .flatMap((each) => readEvent(each) ?? []),
        newest_s: page.data[0]?.created ?? null,
        last: page.has_more ? page.data.at(-1)!.id : null,
      }
    })
}

/**
 * The time limit for reading the list of all payments in a time range. At 100 payments a second, the list of two
 * minutes has 120 pages. The list of a day with 600,000 payments has 6,000 pages, which is more than the limit allows.
 */
const LIST_TIMEOUT_MS = 60_000

function hasPaymentId(metadata: Stripe.Metadata | null, payment_id: string): boolean {
  return metadata?.['sluice_payment_id'] === payment_id
}

/** The payment with the most advanced status: each declined attempt leaves a payment intent of its own. */
function mostAdvanced(payments: ProcessorPayment[]): ProcessorPayment | null {
  return (
    payments.sort((a, b) => PAYMENT_PROGRESS.indexOf(b.status) - PAYMENT_PROGRESS.indexOf(a.status))[0] ??
    null
  )
}

/** How long Stripe's events can be read: Stripe stores them for 30 days, of which one is the margin. */
const EVENT_RETENTION_S = 29 * 24 * 3600

function authorizeParams(request: AuthorizeCall): Stripe.PaymentIntentCreateParams {
  const params: Stripe.PaymentIntentCreateParams = {
    amount: request.amount_minor,
    currency: request.currency.toLowerCase(),
    capture_method: 'manual',
    metadata: request.metadata,
    expand: ['latest_charge'],
  }
  if (request.description !== null) params.description = request.description
  if (request.payment_method === null) return { ...params, automatic_payment_methods: { enabled: true } }
  params.payment_method = request.payment_method
  params.confirm = true
  if (request.return_url !== null) return { ...params, return_url: request.return_url }
  return { ...params, automatic_payment_methods: { enabled: true, allow_redirects: 'never' } }
}

const CANCELLATION_REASONS = ['duplicate', 'fraudulent', 'requested_by_customer', 'abandoned']
const REFUND_REASONS = ['duplicate', 'fraudulent', 'requested_by_customer']

/** A reason that Stripe does not support is not sent. */
function cancelParams(request: CancelCall): Stripe.PaymentIntentCancelParams {
  const params: Stripe.PaymentIntentCancelParams = { expand: ['latest_charge'] }
  if (request.reason !== null && CANCELLATION_REASONS.includes(request.reason))
    params.cancellation_reason = request.reason
  return params
}

function refundParams(request: RefundCall): Stripe.RefundCreateParams {
  const params: Stripe.RefundCreateParams = {
    payment_intent: request.payment_reference,
    amount: request.amount_minor,
    metadata: request.metadata,
  }
  if (request.reason !== null && REFUND_REASONS.includes(request.reason)) params.reason = request.reason
  return params
}

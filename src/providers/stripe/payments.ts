// The payments provider: Stripe through its official SDK, every answer checked and classified.
import assert from 'node:assert/strict'
import { Stripe } from 'stripe'
import type { Outcome } from '#core/outcome.ts'
import { causeOf, classify, isMissing } from './classify.ts'
import { guardClient, NoAnswer } from './guard.ts'
import { NotStarted } from '../permit.ts'
import type {
  AuthorizeRequest,
  CancelRequest,
  PaymentProcessor,
  ProcessorPayment,
  ProcessorRefund,
  RefundRequest,
} from '../payments.ts'

export type StripeOptions = {
  secret_key: string
  /** Another server than Stripe's own, e.g. `http://127.0.0.1:12111`. */
  api_base?: string | null
  /** For a whole call, pages included; 15,000 unless told. */
  deadline_ms?: number
  onCall?: (call: { operation: string; outcome: Outcome<unknown>['kind']; duration_ms: number }) => void
}

/** The parameters of a writing call are a pure function of its request: under one key Stripe accepts only the same bytes. */
export function stripeProcessor(options: StripeOptions): PaymentProcessor & { close(): Promise<void> } {
  const deadline_ms = options.deadline_ms ?? 15_000
  const client = guardClient(options.api_base ?? 'https://api.stripe.com')
  const stripe = new Stripe(options.secret_key, {
    httpClient: client,
    timeout: deadline_ms,
    maxNetworkRetries: 0,
    telemetry: false,
  })

  async function call<T>(operation: string, ask: () => Promise<T>): Promise<Outcome<T>> {
    const started = performance.now()
    const outcome = await ask().then((value): Outcome<T> => ({ kind: 'done', value }), classifyStarted)
    options.onCall?.({ operation, outcome: outcome.kind, duration_ms: performance.now() - started })
    return outcome
  }

  return {
    name: 'stripe',
    authorize: async (request, key) =>
      without(
        request.payment_method,
        await call('authorize', async () =>
          toPayment(await stripe.paymentIntents.create(authorizeParams(request), keyed(key))),
        ),
      ),
    capture: (request, key) =>
      call('capture', async () => {
        const params = { amount_to_capture: request.amount_minor, expand: ['latest_charge'] }
        return toPayment(
          await stripe.paymentIntents.capture(request.reference, params, keyed(key)),
          request.reference,
        )
      }),
    cancel: (request, key) =>
      call('cancel', async () =>
        toPayment(
          await stripe.paymentIntents.cancel(request.reference, cancelParams(request), keyed(key)),
          request.reference,
        ),
      ),
    refund: (request, key) =>
      call('refund', async () => toRefund(await stripe.refunds.create(refundParams(request), keyed(key)))),

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
        believe(found.object === 'search_result' && Array.isArray(found.data), 'not a search result')
        const payments = found.data
          .map((each) => toPayment(each))
          .filter((each) => each.metadata['sluice_payment_id'] === payment_id)
        // A try that was declined leaves a payment of its own behind; the one that got furthest is the one that counts.
        return payments.sort((a, b) => PROGRESS.indexOf(b.status) - PROGRESS.indexOf(a.status))[0] ?? null
      }),

    findRefund: (reference) =>
      call('find_refund', async () => {
        const found = await stripe.refunds.retrieve(reference).catch(nullIfMissing)
        return found && toRefund(found, reference)
      }),

    searchRefund: (payment_reference, refund_id) =>
      call('search_refund', async () => {
        const until = performance.now() + deadline_ms
        let starting_after: string | undefined
        for (;;) {
          const left_ms = Math.ceil(until - performance.now())
          if (left_ms <= 0) throw new NoAnswer(`no answer within ${deadline_ms} ms`, { sent: true })
          const page = await stripe.refunds.list(
            { payment_intent: payment_reference, limit: 100, starting_after },
            { timeout: left_ms },
          )
          believe(page.object === 'list' && Array.isArray(page.data), 'not a list')
          const refunds = page.data.map((each) => toRefund(each))
          const found = refunds.find((each) => each.metadata['sluice_refund_id'] === refund_id)
          if (found || !page.has_more) return found ?? null
          starting_after = refunds.at(-1)?.reference
          believe(starting_after !== undefined, 'more to come after an empty page')
        }
      }),

    listEvents: ({ from_s, to_s, after }) =>
      call('list_events', async () => {
        const page = await stripe.events.list({
          created: { gte: from_s, lte: to_s },
          types: EVENT_TYPES,
          limit: 100,
          ...(after !== null && { starting_after: after }),
        })
        believe(page.object === 'list' && Array.isArray(page.data), 'not a list')
        believe(
          page.data.every(
            (each) => each.object === 'event' && isId(each.id, 'evt_') && isAmount(each.created),
          ),
          'not events',
        )
        believe(!page.has_more || page.data.length > 0, 'more to come after an empty page')
        return {
          events: page.data,
          newest_s: page.data[0]?.created ?? null,
          last: page.has_more ? page.data.at(-1)!.id : null,
        }
      }),

    close: () => client.close(),
  }
}

/** What did not start has no outcome: the job is given back as it is. */
function classifyStarted(error: unknown): Exclude<Outcome<never>, { kind: 'done' }> {
  const cause = causeOf(error)
  if (cause instanceof NotStarted) throw cause
  return classify(error)
}

/** Stripe's refusals name the token that they refuse; it belongs neither into an answer nor into a row. */
function without<T>(token: string | null, outcome: Outcome<T>): Outcome<T> {
  if (outcome.kind !== 'declined' || token === null) return outcome
  const message = outcome.failure.message
    .replaceAll(`'${token}'`, 'the payment method')
    .replaceAll(token, 'the payment method')
  return { ...outcome, failure: { ...outcome.failure, message } }
}

/** Events that change what we keep of payments and refunds; at most 20, says Stripe. */
const EVENT_TYPES = [
  'payment_intent.amount_capturable_updated',
  'payment_intent.canceled',
  'payment_intent.payment_failed',
  'payment_intent.processing',
  'payment_intent.requires_action',
  'payment_intent.succeeded',
  'refund.created',
  'refund.failed',
  'refund.updated',
]

function authorizeParams(request: AuthorizeRequest): Stripe.PaymentIntentCreateParams {
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

/** A reason that Stripe has no word for stays with us. */
function cancelParams(request: CancelRequest): Stripe.PaymentIntentCancelParams {
  const params: Stripe.PaymentIntentCancelParams = { expand: ['latest_charge'] }
  if (request.reason !== null && CANCELLATION_REASONS.includes(request.reason))
    params.cancellation_reason = request.reason
  return params
}

function refundParams(request: RefundRequest): Stripe.RefundCreateParams {
  const params: Stripe.RefundCreateParams = {
    payment_intent: request.payment_reference,
    amount: request.amount_minor,
    metadata: request.metadata,
  }
  if (request.reason !== null && REFUND_REASONS.includes(request.reason)) params.reason = request.reason
  return params
}

/** The SDK makes up a random key where it is given none, and an empty one counts as none. */
function keyed(key: string): Stripe.RequestOptions {
  assert(key.length > 0 && key.length <= 255, 'a writing call carries its own idempotency key')
  return { idempotencyKey: key }
}

const PAYMENT_STATUS = new Map<string, ProcessorPayment['status']>([
  ['requires_payment_method', 'requires_action'],
  ['requires_confirmation', 'requires_action'],
  ['requires_action', 'requires_action'],
  ['processing', 'processing'],
  ['requires_capture', 'authorized'],
  ['succeeded', 'captured'],
  ['canceled', 'canceled'],
])
const PROGRESS: ProcessorPayment['status'][] = [
  'failed',
  'canceled',
  'requires_action',
  'processing',
  'authorized',
  'captured',
]

function toPayment(intent: Stripe.PaymentIntent, reference?: string): ProcessorPayment {
  const status = PAYMENT_STATUS.get(intent.status)
  believe(intent.object === 'payment_intent' && isId(intent.id, 'pi_'), 'not a payment intent')
  believe(reference === undefined || intent.id === reference, 'another payment intent than asked for')
  believe(status !== undefined, 'a payment intent in a status that we do not know')
  believe(
    isAmount(intent.amount) && isAmount(intent.amount_capturable) && isAmount(intent.amount_received),
    'a payment intent without amounts',
  )
  believe(typeof intent.currency === 'string', 'a payment intent without a currency')
  const charge = typeof intent.latest_charge === 'object' ? intent.latest_charge : null
  const card = charge?.payment_method_details?.card
  const error = intent.last_payment_error
  return {
    reference: intent.id,
    status,
    amount_minor: intent.amount,
    amount_capturable_minor: intent.amount_capturable,
    amount_captured_minor: intent.amount_received,
    amount_refunded_minor: status === 'captured' ? charge && refundedOf(charge) : 0,
    currency: intent.currency.toUpperCase(),
    client_secret: status === 'requires_action' ? (intent.client_secret ?? null) : null,
    capture_before: card?.capture_before ? new Date(card.capture_before * 1000).toISOString() : null,
    cancellation_reason: intent.cancellation_reason ?? null,
    failure: error
      ? {
          code: error.code ?? error.type,
          message: error.message ?? '',
          decline_code: error.decline_code ?? null,
        }
      : null,
    metadata: intent.metadata ?? {},
  }
}

// Stripe counts what was held and never captured as refunded, too.
function refundedOf({ amount, amount_captured, amount_refunded }: Stripe.Charge): number | null {
  if (!isAmount(amount) || !isAmount(amount_captured) || !isAmount(amount_refunded)) return null
  return Math.max(0, amount_refunded - (amount - amount_captured))
}

const REFUND_STATUS = new Map<string | null, ProcessorRefund['status']>([
  ['pending', 'pending'],
  ['requires_action', 'pending'],
  ['succeeded', 'succeeded'],
  ['failed', 'failed'],
  ['canceled', 'failed'],
])

function toRefund(refund: Stripe.Refund, reference?: string): ProcessorRefund {
  const status = REFUND_STATUS.get(refund.status)
  // Refunds of some methods are older than `re_`.
  believe(refund.object === 'refund' && (isId(refund.id, 're_') || isId(refund.id, 'pyr_')), 'not a refund')
  believe(reference === undefined || refund.id === reference, 'another refund than asked for')
  believe(status !== undefined, 'a refund in a status that we do not know')
  believe(isAmount(refund.amount) && typeof refund.currency === 'string', 'a refund without an amount')
  const payment = refund.payment_intent
  return {
    reference: refund.id,
    payment_reference: typeof payment === 'string' ? payment : (payment?.id ?? null),
    status,
    amount_minor: refund.amount,
    currency: refund.currency.toUpperCase(),
    failure_reason: refund.failure_reason ?? (refund.status === 'canceled' ? 'canceled' : null),
    // Stripe may show what was held and never captured as a refund; it has no movement on the balance.
    released_hold:
      refund.reason === 'expired_uncaptured_charge' ||
      (status === 'succeeded' && refund.balance_transaction === null),
    metadata: refund.metadata ?? {},
  }
}

/** The types of the SDK say what Stripe promises; this asks whether it is so. */
function believe(belief: boolean, otherwise: string): asserts belief {
  if (!belief) throw new NoAnswer(`unreadable answer: ${otherwise}`, { sent: true })
}

function isId(value: unknown, prefix: string): boolean {
  return typeof value === 'string' && value.length > prefix.length && value.startsWith(prefix)
}

function isAmount(value: unknown): boolean {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0
}

function nullIfMissing(error: unknown): null {
  if (isMissing(error)) return null
  throw error
}

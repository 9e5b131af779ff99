// The top-up processor on Stripe.
import type { Stripe } from 'stripe'
import type { ProcessorTopUp, TopUpCall, TopUpProcessor } from '../top-ups.ts'
import { assertAnswer, isAmount, isId } from './answers.ts'
import { nullIfMissing, withoutToken } from './classify.ts'
import { idempotencyOptions, openStripe, type StripeOptions } from './client.ts'
import { findInList } from './lists.ts'
import { objectLists } from './objects.ts'
import { TOP_UP_STATUS } from './statuses.ts'

/**
 * The top-up processor. The parameters of a call that changes something depend only on its request: under one
 * idempotency key Stripe accepts only identical parameters.
 */
export function stripeTopUps(options: StripeOptions): TopUpProcessor & { close(): Promise<void> } {
  const client = openStripe(options)
  const { stripe, deadline_ms, call, findAccount, close } = client

  return {
    name: 'stripe',
    get credentials() {
      return client.credentials
    },
    findAccount,
    lists: objectLists(client, { top_ups: (range) => stripe.topups.list(range) }),
    topUp: async (request, key) =>
      withoutToken(
        request.source,
        'the source',
        await call('top_up', async () =>
          toTopUp(await stripe.topups.create(paramsOf(request), idempotencyOptions(key))),
        ),
      ),

    findTopUp: (reference) =>
      call('find_top_up', async () => {
        const found = await stripe.topups.retrieve(reference).catch(nullIfMissing)
        return found && toTopUp(found, reference)
      }),

    searchTopUp: ({ top_up_id, amount_minor, from_s, to_s, now_s }) =>
      call('search_top_up', () =>
        findInList(
          deadline_ms,
          (page, within) =>
            stripe.topups.list(
              {
                ...(amount_minor !== null && { amount: amount_minor }),
                created: { gte: from_s, lte: to_s },
                ...page,
              },
              within,
            ),
          { name: 'sluice_top_up_id', id: top_up_id, now_s },
          (each) => toTopUp(each),
        ),
      ),

    close,
  }
}

function paramsOf({ amount_minor, currency, description, source, metadata }: TopUpCall) {
  const params: Stripe.TopupCreateParams = { amount: amount_minor, currency, metadata }
  if (description !== null) params.description = description
  if (source === null) return params
  return source.startsWith('pm_') ? { ...params, payment_method: source } : { ...params, source }
}

function toTopUp(topup: Stripe.Topup, reference?: string): ProcessorTopUp {
  const status = TOP_UP_STATUS.get(topup.status)
  assertAnswer(topup.object === 'topup' && isId(topup.id, 'tu_'), 'not a top-up')
  assertAnswer(reference === undefined || topup.id === reference, 'not the requested top-up')
  assertAnswer(status !== undefined, 'a top-up with an unknown status')
  assertAnswer(isAmount(topup.amount) && typeof topup.currency === 'string', 'a top-up without an amount')
  return {
    reference: topup.id,
    status,
    amount_minor: topup.amount,
    currency: topup.currency.toLowerCase(),
    failure:
      status === 'failed'
        ? {
            code: topup.failure_code ?? 'processor_error',
            message: topup.failure_message ?? 'The top-up failed at the processor.',
          }
        : null,
    description: topup.description ?? null,
    metadata: topup.metadata ?? {},
  }
}

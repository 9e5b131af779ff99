// The payout processor on Stripe. A payout to a bank account or card of the platform is a Stripe payout; a payout to a
// connected account is a Stripe transfer.
import type { Stripe } from 'stripe'
import type { Outcome } from '#core/outcome.ts'
import { LACKS_FUNDS, type PayoutCall, type PayoutProcessor, type ProcessorPayout } from '../payouts.ts'
import { assertAnswer, isAmount, isId } from './answers.ts'
import { nullIfMissing, withoutToken } from './classify.ts'
import { idempotencyOptions, openStripe, type StripeOptions } from './client.ts'
import { findInList } from './lists.ts'
import { objectLists } from './objects.ts'
import { PAYOUT_STATUS } from './statuses.ts'

/**
 * The payout processor. The parameters of a call that changes something depend only on its request: under one
 * idempotency key Stripe accepts only identical parameters.
 */
export function stripePayouts(options: StripeOptions): PayoutProcessor & { close(): Promise<void> } {
  const client = openStripe(options)
  const { stripe, deadline_ms, call, findAccount, close } = client

  return {
    name: 'stripe',
    get credentials() {
      return client.credentials
    },
    findAccount,
    lists: objectLists(client, {
      payouts: (range) => stripe.payouts.list(range),
      transfers: (range) => stripe.transfers.list(range),
    }),
    payOut: async (request, key) =>
      refusal(
        request.destination,
        await call('payout', async () =>
          isAccount(request.destination)
            ? toTransfer(await stripe.transfers.create(transferParams(request), idempotencyOptions(key)))
            : toPayout(await stripe.payouts.create(payoutParams(request), idempotencyOptions(key))),
        ),
      ),

    cancelPayout: (reference, key) =>
      call('cancel_payout', async () =>
        toPayout(await stripe.payouts.cancel(reference, {}, idempotencyOptions(key)), reference),
      ),

    findPayout: (reference) =>
      call('find_payout', async () => {
        if (reference.startsWith('tr_')) {
          const transfer = await stripe.transfers.retrieve(reference).catch(nullIfMissing)
          return transfer && toTransfer(transfer, reference)
        }
        const payout = await stripe.payouts.retrieve(reference).catch(nullIfMissing)
        return payout && toPayout(payout, reference)
      }),

    searchPayout: ({ payout_id, destination, from_s, to_s, now_s }) =>
      call('search_payout', async () => {
        const filter = {
          ...(destination !== null && { destination }),
          created: { gte: from_s, lte: to_s },
        }
        const match = { name: 'sluice_payout_id', id: payout_id, now_s }
        const inTransfers = async () =>
          await findInList(
            deadline_ms,
            (page, within) => stripe.transfers.list({ ...filter, ...page }, within),
            match,
            (each) => toTransfer(each),
          )
        if (destination !== null && isAccount(destination)) return await inTransfers()
        const found = await findInList(
          deadline_ms,
          (page, within) => stripe.payouts.list({ ...filter, ...page }, within),
          match,
          (each) => toPayout(each),
        )
        return found ?? (destination === null ? await inTransfers() : null)
      }),

    close,
  }
}

function isAccount(destination: string): boolean {
  return destination.startsWith('acct_')
}

function payoutParams({ destination, ...request }: PayoutCall): Stripe.PayoutCreateParams {
  return { ...commonParams(request), destination }
}

function transferParams({ destination, ...request }: PayoutCall): Stripe.TransferCreateParams {
  return { ...commonParams(request), destination }
}

function commonParams({ amount_minor, currency, description, metadata }: Omit<PayoutCall, 'destination'>) {
  return { amount: amount_minor, currency, metadata, ...(description !== null && { description }) }
}

/** Reports a refusal as `payout_refused` instead of a payment error, without the refused token. */
function refusal<T>(destination: string, outcome: Outcome<T>): Outcome<T> {
  const redacted = withoutToken(destination, 'the destination', outcome)
  if (redacted.kind !== 'declined') return redacted
  const { code, processor_code, ...failure } = redacted.failure
  // The key was used with other parameters: Stripe has not refused the request itself.
  const refused = code === 'processor_error' ? code : 'payout_refused'
  const failure_code = processor_code === 'balance_insufficient' ? LACKS_FUNDS : processor_code
  return {
    ...redacted,
    failure: { ...failure, code: refused, ...(failure_code && { processor_code: failure_code }) },
  }
}

function toPayout(payout: Stripe.Payout, reference?: string): ProcessorPayout {
  const status = PAYOUT_STATUS.get(payout.status)
  assertAnswer(payout.object === 'payout' && isId(payout.id, 'po_'), 'not a payout')
  assertAnswer(reference === undefined || payout.id === reference, 'not the requested payout')
  assertAnswer(status !== undefined, 'a payout with an unknown status')
  assertAnswer(isAmount(payout.amount) && typeof payout.currency === 'string', 'a payout without an amount')
  return {
    reference: payout.id,
    status,
    amount_minor: payout.amount,
    currency: payout.currency.toLowerCase(),
    returned_minor: status === 'failed' || status === 'canceled' ? payout.amount : 0,
    destination: idOf(payout.destination),
    arrival_date: dayOf(payout.arrival_date),
    failure:
      status === 'failed'
        ? {
            code: payout.failure_code ?? 'processor_error',
            message: payout.failure_message ?? 'The payout failed at the processor.',
          }
        : null,
    description: payout.description ?? null,
    metadata: payout.metadata ?? {},
  }
}

/** Converts a transfer. A transfer is paid when it is created, and failed when it is fully reversed. */
function toTransfer(transfer: Stripe.Transfer, reference?: string): ProcessorPayout {
  assertAnswer(transfer.object === 'transfer' && isId(transfer.id, 'tr_'), 'not a transfer')
  assertAnswer(reference === undefined || transfer.id === reference, 'not the requested transfer')
  assertAnswer(
    isAmount(transfer.amount) && isAmount(transfer.amount_reversed) && typeof transfer.currency === 'string',
    'a transfer without amounts',
  )
  assertAnswer(typeof transfer.reversed === 'boolean', 'a transfer without `reversed`')
  return {
    reference: transfer.id,
    status: transfer.reversed ? 'failed' : 'paid',
    amount_minor: transfer.amount,
    currency: transfer.currency.toLowerCase(),
    returned_minor: transfer.amount_reversed,
    destination: idOf(transfer.destination),
    arrival_date: null,
    failure: transfer.reversed ? { code: 'reversed', message: 'The transfer was reversed.' } : null,
    description: transfer.description ?? null,
    metadata: transfer.metadata ?? {},
  }
}

function idOf(value: string | { id: string } | null): string | null {
  return typeof value === 'string' ? value : (value?.id ?? null)
}

/** 9999-12-31T23:59:59Z in unix seconds. */
const MAX_TIME_S = 253_402_300_799

/** The UTC date of unix seconds; null if it does not fit `YYYY-MM-DD`. */
function dayOf(seconds: unknown): string | null {
  return isAmount(seconds) && Number(seconds) <= MAX_TIME_S
    ? new Date(Number(seconds) * 1000).toISOString().slice(0, 10)
    : null
}

// Top-ups: from the platform's bank account to the balance. The bank may refuse or reverse them.
import { BANK_CALL, type Call } from '../shared/call.ts'
import { recordEffect } from '../shared/effects.ts'
import { refuseFraction } from './currencies.ts'
import { nowS, type Emulator } from './emulator.ts'
import { parameterRefused, requestRefused } from './errors.ts'
import { emit } from './events.ts'
import { stripeId } from './ids.ts'
import { schedule, SETTLE_DELAY_MS, behaviorOf } from './schedule.ts'
import { requireObject, listOf } from './lists.ts'
import { amountOf, metadataOf, required, stringOf } from './params.ts'
import type { Params } from './parse.ts'
import { PAGING, type Routes } from './route.ts'
import { enumeration, exclusive, range, text, parameters } from './rules.ts'
import { save } from './store.ts'
import type { Topup } from './versions.ts'

const AVAILABILITY_DELAY_S = 5 * 86_400
const FAILURE = {
  code: 'insufficient_funds',
  message: 'The bank account has insufficient funds to complete this top-up.',
}
export const TOPUP_FINAL_STATUSES = ['succeeded', 'failed', 'canceled', 'reversed'] as const
type TopupFinalStatus = (typeof TOPUP_FINAL_STATUSES)[number]

/** Automatic result of a pending top-up by the name of its source. Default: `success`. */
const BEHAVIORS: Record<'success' | 'fails' | 'manual', TopupFinalStatus | null> = {
  success: 'succeeded',
  fails: 'failed',
  manual: null,
}

function createTopup(emulator: Emulator, call: Call, params: Params): Topup {
  const amount = required(amountOf(params, 'amount'), 'amount')
  const currency = required(stringOf(params, 'currency'), 'currency')
  refuseFraction(amount, currency, 'amount')
  const source = stringOf(params, 'source')
  const payment_method = stringOf(params, 'payment_method')
  exclusive(params, 'source', 'payment_method')
  const created = nowS(emulator)
  const topup = save(emulator.store, {
    object: 'topup',
    id: stripeId('tu_1'),
    created,
    revision: 0,
    amount,
    currency,
    source,
    payment_method,
    description: stringOf(params, 'description'),
    statement_descriptor: stringOf(params, 'statement_descriptor'),
    transfer_group: stringOf(params, 'transfer_group'),
    expected_availability_date: created + AVAILABILITY_DELAY_S,
    status: 'pending',
    failure: null,
    balance_transaction: null,
    metadata: metadataOf(params, {}),
  })
  emit(emulator, call, 'topup.created', topup)
  scheduleFinalStatus(emulator, topup)
  return topup
}

export function findTopup(emulator: Emulator, id: string): Topup {
  return requireObject(emulator.store.topups, 'topup', id)
}

/** Cancels a top-up. Only possible in `pending`, as at Stripe. */
function cancelTopup(emulator: Emulator, call: Call, topup: Topup): Topup {
  if (topup.status !== 'pending')
    throw requestRefused(
      null,
      undefined,
      `This top-up cannot be canceled because it has a status of ${topup.status}. Only pending top-ups can be canceled.`,
    )
  return settleTopup(emulator, call, topup, 'canceled')
}

/** Applies the decision of the bank. A succeeded top-up may still be reversed; other statuses are final. */
export function settleTopup(emulator: Emulator, call: Call, topup: Topup, status: TopupFinalStatus): Topup {
  if (topup.status !== (status === 'reversed' ? 'succeeded' : 'pending'))
    throw parameterRefused(`This top-up has a status of ${topup.status}.`, 'status')
  const { id, amount, currency, metadata } = topup
  const settled = save(emulator.store, {
    ...topup,
    status,
    failure: status === 'failed' ? FAILURE : null,
    balance_transaction: status === 'succeeded' ? stripeId('txn_1') : topup.balance_transaction,
  })
  if (status === 'succeeded' || status === 'reversed')
    recordEffect(emulator.effects, call, status === 'succeeded' ? 'top_up' : 'top_up_reversed', {
      topup: id,
      amount,
      currency,
      metadata,
    })
  emit(emulator, call, `topup.${status}`, settled)
  return settled
}

/** Resumes scheduled changes after a restart. */
export function resumeTopups(emulator: Emulator): void {
  for (const topup of emulator.store.topups.byId.values()) scheduleFinalStatus(emulator, topup)
}

function scheduleFinalStatus(emulator: Emulator, { id, status, source, payment_method }: Topup): void {
  const end = BEHAVIORS[behaviorOf(BEHAVIORS, source ?? payment_method ?? '', 'success')]
  if (status !== 'pending' || end === null) return
  schedule(emulator, SETTLE_DELAY_MS, () => {
    const topup = findTopup(emulator, id)
    if (topup.status === 'pending') settleTopup(emulator, BANK_CALL, topup, end)
  })
}

/** Updates a top-up. Stripe sends no event for an update. */
function updateTopup(emulator: Emulator, topup: Topup, params: Params): Topup {
  return save(emulator.store, {
    ...topup,
    metadata: metadataOf(params, topup.metadata),
    description: stringOf(params, 'description') ?? topup.description,
  })
}

export const TOPUP_ROUTES: Routes = {
  'POST topups': {
    object: 'topup',
    accepts: parameters(
      'amount currency description expand metadata payment_method payment_method_options source statement_descriptor transfer_group',
      { statement_descriptor: text(15) },
    ),
    one: (emulator, call, _ids, params) => createTopup(emulator, call, params),
  },
  'GET topups': {
    object: 'topup',
    accepts: parameters(`${PAGING} amount created status`, {
      amount: range,
      status: enumeration('canceled', 'failed', 'pending', 'reversed', 'succeeded'),
    }),
    list: (emulator, params) =>
      listOf(emulator, params, '/v1/topups', emulator.store.topups, {
        equal: ['status'],
        ranges: ['amount', 'created'],
      }),
  },
  'GET topups/:id': {
    object: 'topup',
    accepts: parameters('expand'),
    one: (emulator, _call, { id }) => findTopup(emulator, id),
  },
  'POST topups/:id': {
    object: 'topup',
    accepts: parameters('description metadata expand'),
    one: (emulator, _call, { id }, params) => updateTopup(emulator, findTopup(emulator, id), params),
  },
  'POST topups/:id/cancel': {
    object: 'topup',
    accepts: parameters('expand'),
    one: (emulator, call, { id }) => cancelTopup(emulator, call, findTopup(emulator, id)),
  },
}

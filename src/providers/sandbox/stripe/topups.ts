// Top-ups: from the platform's bank account to the balance. The bank may refuse or reverse them.
import { behaviorOf } from './behavior.ts'
import { BANK_CALL, type Call } from './call.ts'
import { refuseFraction } from './currencies.ts'
import { recordEffect } from './effects.ts'
import { nowMs, nowS, recordS, type Engine } from './engine.ts'
import { parameterRefused, requestRefused } from './errors.ts'
import { emit } from './events.ts'
import { stripeId } from './ids.ts'
import { requireObject, listOf } from './lists.ts'
import { amountOf, metadataOf, required, stringOf } from './params.ts'
import type { Params } from './parse.ts'
import { PAGING, type Routes } from './route.ts'
import { enumeration, exclusive, range, text, parameters } from './rules.ts'
import { save } from './save.ts'
import { scheduleAfter, scheduleBy, SETTLE_DELAY_MS, unschedule } from './schedule.ts'
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

function createTopup(engine: Engine, call: Call, params: Params): Topup {
  const amount = required(amountOf(params, 'amount'), 'amount')
  const currency = required(stringOf(params, 'currency'), 'currency')
  refuseFraction(amount, currency, 'amount')
  const source = stringOf(params, 'source')
  const payment_method = stringOf(params, 'payment_method')
  exclusive(params, 'source', 'payment_method')
  const topup = save(engine, {
    object: 'topup',
    id: stripeId('tu_1'),
    created: recordS(engine),
    revision: 0,
    amount,
    currency,
    source,
    payment_method,
    description: stringOf(params, 'description'),
    statement_descriptor: stringOf(params, 'statement_descriptor'),
    transfer_group: stringOf(params, 'transfer_group'),
    expected_availability_date: nowS(engine) + AVAILABILITY_DELAY_S,
    status: 'pending',
    failure: null,
    balance_transaction: null,
    metadata: metadataOf(params, {}),
  })
  emit(engine, call, 'topup.created', topup)
  if (scheduledEndOf(topup) !== null) scheduleAfter(engine, 'topup', topup.id, SETTLE_DELAY_MS)
  return topup
}

export function findTopup(engine: Engine, id: string): Topup {
  return requireObject(engine.store.topups, 'topup', id)
}

/** Cancels a top-up. Only possible in `pending`, as at Stripe. */
function cancelTopup(engine: Engine, call: Call, topup: Topup): Topup {
  if (topup.status !== 'pending')
    throw requestRefused(
      null,
      undefined,
      `This top-up cannot be canceled because it has a status of ${topup.status}. Only pending top-ups can be canceled.`,
    )
  return settleTopup(engine, call, topup, 'canceled')
}

/** Applies the decision of the bank. A succeeded top-up may still be reversed; other statuses are final. */
export function settleTopup(engine: Engine, call: Call, topup: Topup, status: TopupFinalStatus): Topup {
  if (topup.status !== (status === 'reversed' ? 'succeeded' : 'pending'))
    throw parameterRefused(`This top-up has a status of ${topup.status}.`, 'status')
  const { id, amount, currency, metadata } = topup
  unschedule(engine, 'topup', id)
  const settled = save(engine, {
    ...topup,
    status,
    failure: status === 'failed' ? FAILURE : null,
    balance_transaction: status === 'succeeded' ? stripeId('txn_1') : topup.balance_transaction,
  })
  if (status === 'succeeded' || status === 'reversed')
    recordEffect(engine, call, status === 'succeeded' ? 'top_up' : 'top_up_reversed', {
      topup: id,
      amount,
      currency,
      metadata,
    })
  emit(engine, call, `topup.${status}`, settled)
  return settled
}

/** Sets the scheduled final status of a top-up. */
export function finishTopup(engine: Engine, id: string): void {
  const topup = findTopup(engine, id)
  const end = scheduledEndOf(topup)
  if (end !== null) settleTopup(engine, BANK_CALL, topup, end)
}

/** Schedules the final statuses that the journal lacks. */
export function resumeTopups(engine: Engine): void {
  const due_ms = nowMs(engine) + SETTLE_DELAY_MS
  for (const topup of engine.store.topups.byId.values())
    if (scheduledEndOf(topup) !== null) scheduleBy(engine, { kind: 'topup', id: topup.id, due_ms })
}

/** The final status that a pending top-up gets by itself. Null: none, or the top-up is no longer pending. */
function scheduledEndOf({ status, source, payment_method }: Topup): TopupFinalStatus | null {
  const end = BEHAVIORS[behaviorOf(BEHAVIORS, source ?? payment_method ?? '', 'success')]
  return status === 'pending' ? end : null
}

/** Updates a top-up. Stripe sends no event for an update. */
function updateTopup(engine: Engine, topup: Topup, params: Params): Topup {
  return save(engine, {
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
    one: (engine, call, _ids, params) => createTopup(engine, call, params),
  },
  'GET topups': {
    object: 'topup',
    accepts: parameters(`${PAGING} amount created status`, {
      amount: range,
      status: enumeration('canceled', 'failed', 'pending', 'reversed', 'succeeded'),
    }),
    list: (engine, params) =>
      listOf(engine, params, '/v1/topups', engine.store.topups, {
        equal: ['status'],
        ranges: ['amount', 'created'],
      }),
  },
  'GET topups/:id': {
    object: 'topup',
    accepts: parameters('expand'),
    one: (engine, _call, { id }) => findTopup(engine, id),
  },
  'POST topups/:id': {
    object: 'topup',
    accepts: parameters('description metadata expand'),
    one: (engine, _call, { id }, params) => updateTopup(engine, findTopup(engine, id), params),
  },
  'POST topups/:id/cancel': {
    object: 'topup',
    accepts: parameters('expand'),
    one: (engine, call, { id }) => cancelTopup(engine, call, findTopup(engine, id)),
  },
}

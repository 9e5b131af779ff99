// Transfers to connected accounts, and their full or partial reversals.
import { behaviorOf } from './behavior.ts'
import type { Call } from './call.ts'
import { formatMoney, refuseFraction } from './currencies.ts'
import { recordEffect } from './effects.ts'
import { recordS, type Engine } from './engine.ts'
import { resourceMissing, requestRefused } from './errors.ts'
import { emit } from './events.ts'
import { stripeId } from './ids.ts'
import { requireObject, listOf } from './lists.ts'
import { amountOf, metadataOf, required, stringOf } from './params.ts'
import type { Params } from './parse.ts'
import { PAGING, type Routes } from './route.ts'
import { parameters } from './rules.ts'
import { save } from './save.ts'
import type { Reversal, Transfer } from './versions.ts'

/** Number of reversals that Stripe includes in a transfer. */
const MAX_LISTED_REVERSALS = 10

/** Creates a transfer, which is final at once. */
function createTransfer(engine: Engine, call: Call, params: Params): Transfer {
  const amount = required(amountOf(params, 'amount'), 'amount')
  const currency = required(stringOf(params, 'currency'), 'currency')
  refuseFraction(amount, currency, 'amount')
  const destination = required(stringOf(params, 'destination'), 'destination')
  const metadata = metadataOf(params, {})
  if (!/^acct_./.test(destination)) throw resourceMissing(400, 'destination', destination, 'destination')
  if (behaviorOf({ success: null, refused: null }, destination, 'success') === 'refused')
    throw requestRefused('insufficient_capabilities_for_transfer', 'destination')
  const transfer = save(engine, {
    object: 'transfer',
    id: stripeId('tr_1'),
    created: recordS(engine),
    revision: 0,
    amount,
    amount_reversed: 0,
    currency,
    destination,
    destination_payment: stripeId('py_1'),
    description: stringOf(params, 'description'),
    source_transaction: stringOf(params, 'source_transaction'),
    source_type: stringOf(params, 'source_type') ?? 'card',
    transfer_group: stringOf(params, 'transfer_group'),
    balance_transaction: stripeId('txn_1'),
    latest_reversals: [],
    reversal_count: 0,
    metadata,
  })
  recordEffect(engine, call, 'transfer', { transfer: transfer.id, amount, currency, metadata })
  emit(engine, call, 'transfer.created', transfer)
  return transfer
}

export function findTransfer(engine: Engine, id: string): Transfer {
  return requireObject(engine.store.transfers, 'transfer', id)
}

/** Reverses a transfer. Default amount: the rest that is not reversed yet. */
export function reverseTransfer(engine: Engine, call: Call, transfer: Transfer, params: Params): Reversal {
  const { id, currency } = transfer
  const reversible = transfer.amount - transfer.amount_reversed
  const amount = amountOf(params, 'amount') ?? reversible
  const metadata = metadataOf(params, {})
  if (reversible === 0) throw requestRefused(null, undefined, `Transfer ${id} is already fully reversed.`)
  if (amount > reversible)
    throw requestRefused(
      null,
      'amount',
      `Reversal amount (${formatMoney(amount, currency)}) is greater than unreversed amount on transfer (${formatMoney(reversible, currency)})`,
    )
  const reversal = save(engine, {
    object: 'transfer_reversal',
    id: stripeId('trr_1'),
    created: recordS(engine),
    revision: 0,
    transfer: id,
    amount,
    currency,
    balance_transaction: stripeId('txn_1'),
    destination_payment_refund: stripeId('pyr_1'),
    metadata,
  })
  const reversed = save(engine, {
    ...transfer,
    amount_reversed: transfer.amount_reversed + amount,
    latest_reversals: [reversal, ...transfer.latest_reversals].slice(0, MAX_LISTED_REVERSALS),
    reversal_count: transfer.reversal_count + 1,
  })
  recordEffect(engine, call, 'transfer_reversed', {
    transfer: id,
    transfer_reversal: reversal.id,
    amount,
    currency,
    metadata: { ...transfer.metadata, ...metadata },
  })
  emit(engine, call, 'transfer.reversed', reversed, transfer)
  return reversal
}

function findReversal(engine: Engine, id: string, part: string): Reversal {
  const reversal = requireObject(engine.store.reversals, 'transfer reversal', part)
  if (reversal.transfer !== id) throw resourceMissing(404, 'transfer reversal', part, 'id')
  return reversal
}

function updateTransfer(engine: Engine, call: Call, transfer: Transfer, params: Params): Transfer {
  const updated = save(engine, {
    ...transfer,
    metadata: metadataOf(params, transfer.metadata),
    description: stringOf(params, 'description') ?? transfer.description,
  })
  emit(engine, call, 'transfer.updated', updated, transfer)
  return updated
}

export const TRANSFER_ROUTES: Routes = {
  'POST transfers': {
    object: 'transfer',
    accepts: parameters(
      'amount currency description destination expand metadata source_transaction source_type transfer_group',
    ),
    one: (engine, call, _ids, params) => createTransfer(engine, call, params),
  },
  'GET transfers': {
    object: 'transfer',
    accepts: parameters(`${PAGING} created destination transfer_group`),
    list: (engine, params) =>
      listOf(engine, params, '/v1/transfers', engine.store.transfers, {
        equal: ['destination', 'transfer_group'],
      }),
  },
  'GET transfers/:id': {
    object: 'transfer',
    accepts: parameters('expand'),
    one: (engine, _call, { id }) => findTransfer(engine, id),
  },
  'POST transfers/:id': {
    object: 'transfer',
    accepts: parameters('description metadata expand'),
    one: (engine, call, { id }, params) => updateTransfer(engine, call, findTransfer(engine, id), params),
  },
  'POST transfers/:id/reversals': {
    object: 'transfer_reversal',
    accepts: parameters('amount description expand metadata refund_application_fee'),
    one: (engine, call, { id }, params) => reverseTransfer(engine, call, findTransfer(engine, id), params),
  },
  'GET transfers/:id/reversals': {
    object: 'transfer_reversal',
    accepts: parameters(PAGING),
    list(engine, params, { id }) {
      const { reversals, childIdsOf } = engine.store
      const ids = childIdsOf.get(findTransfer(engine, id).id) ?? []
      return listOf(
        engine,
        params,
        `/v1/transfers/${id}/reversals`,
        { ids, byId: reversals.byId },
        { ranges: [] },
      )
    },
  },
  'GET transfers/:id/reversals/:part': {
    object: 'transfer_reversal',
    accepts: parameters('expand'),
    one: (engine, _call, { id, part }) => findReversal(engine, id, part),
  },
}

// Payouts from the balance to a bank account or a debit card. The bank may accept, refuse or return a payout.
import { behaviorOf } from './behavior.ts'
import { BANK_CALL, type Call } from './call.ts'
import { refuseFraction } from './currencies.ts'
import { recordEffect, type Effect } from './effects.ts'
import { nowMs, nowS, recordS, type Engine } from './engine.ts'
import { resourceMissing, parameterRefused, requestRefused } from './errors.ts'
import { emit } from './events.ts'
import { stripeId } from './ids.ts'
import { requireObject, listOf } from './lists.ts'
import { amountOf, metadataOf, oneOf, required, stringOf } from './params.ts'
import type { Params } from './parse.ts'
import { PAGING, type Routes } from './route.ts'
import { text, parameters } from './rules.ts'
import { save } from './save.ts'
import { scheduleAfter, scheduleBy, SETTLE_DELAY_MS, unschedule } from './schedule.ts'
import type { Payout } from './versions.ts'

const DAY_S = 86_400
const TRANSIT_DAYS = 2
const METHODS = ['standard', 'instant'] as const
export const PAYOUT_FINAL_STATUSES = ['paid', 'failed', 'canceled'] as const
type Next = { status: Payout['status']; failure?: string; isLate?: true }
type Behavior = { [status in Payout['status']]?: Next }

const SENT: Behavior = { pending: { status: 'in_transit' }, in_transit: { status: 'paid' } }

/** Automatic status changes by the name of the destination. Default: `success`. */
const BEHAVIORS = {
  success: SENT,
  noAccount: { ...SENT, in_transit: { status: 'failed', failure: 'no_account' } },
  lateReturn: { ...SENT, paid: { status: 'failed', failure: 'account_closed', isLate: true } },
  refused: {},
  // A `manual` payout starts in transit, a `pending` payout is never in transit; neither changes automatically.
  manual: {},
  pending: {},
} satisfies Record<string, Behavior>

const FAILURES: Record<string, string> = {
  no_account: 'The bank account details on file are probably incorrect. No account was found there.',
  account_closed: 'The bank account has been closed.',
  could_not_process: 'The bank could not process this payout.',
}

function createPayout(engine: Engine, call: Call, params: Params): Payout {
  const amount = required(amountOf(params, 'amount'), 'amount')
  const currency = required(stringOf(params, 'currency'), 'currency')
  refuseFraction(amount, currency, 'amount', 'payout')
  const destination = stringOf(params, 'destination') ?? 'ba_success'
  const metadata = metadataOf(params, {})
  const method = oneOf(params, 'method', METHODS) ?? 'standard'
  if (!/^(ba|card)_./.test(destination))
    throw resourceMissing(400, 'external account', destination, 'destination')
  const behavior = behaviorOf(BEHAVIORS, destination, 'success')
  if (behavior === 'refused') throw requestRefused('bank_account_unusable', 'destination')
  const payout = save(engine, {
    object: 'payout',
    id: stripeId('po_1'),
    created: recordS(engine),
    revision: 0,
    amount,
    currency,
    arrival_date: (Math.floor(nowS(engine) / DAY_S) + TRANSIT_DAYS) * DAY_S,
    destination,
    method,
    source_type: stringOf(params, 'source_type') ?? 'card',
    description: stringOf(params, 'description'),
    statement_descriptor: stringOf(params, 'statement_descriptor'),
    status: behavior === 'manual' ? 'in_transit' : 'pending',
    failure: null,
    balance_transaction: stripeId('txn_1'),
    failure_balance_transaction: null,
    metadata,
  })
  record(engine, call, 'payout', payout)
  emit(engine, call, 'payout.created', payout)
  scheduleNextStatus(engine, payout)
  return payout
}

export function findPayout(engine: Engine, id: string): Payout {
  return requireObject(engine.store.payouts, 'payout', id)
}

/** Cancels a payout. Only possible in `pending`, as at Stripe. */
function cancelPayout(engine: Engine, call: Call, payout: Payout): Payout {
  if (payout.status !== 'pending')
    throw requestRefused(
      null,
      undefined,
      `This payout cannot be canceled because it has a status of ${payout.status}. Only a payout with a status of pending may be canceled.`,
    )
  return setPayoutStatus(engine, call, payout, { status: 'canceled' })
}

/** Applies the decision of the bank. A paid payout may still fail; failed and canceled payouts are final. */
export function settlePayout(
  engine: Engine,
  call: Call,
  payout: Payout,
  status: (typeof PAYOUT_FINAL_STATUSES)[number],
  failure?: string,
): Payout {
  const isFinal = payout.status === 'failed' || payout.status === 'canceled'
  if (isFinal || payout.status === status || (payout.status === 'paid' && status !== 'failed'))
    throw parameterRefused(`This payout has a status of ${payout.status}.`, 'status')
  return setPayoutStatus(engine, call, payout, { status, failure: failure ?? 'could_not_process' })
}

/** Sets the scheduled status of a payout. */
export function movePayout(engine: Engine, id: string): void {
  const payout = findPayout(engine, id)
  const next = nextStatusOf(payout)
  if (next !== undefined) setPayoutStatus(engine, BANK_CALL, payout, next)
}

/** Schedules the statuses that the journal lacks. */
export function resumePayouts(engine: Engine): void {
  const now = nowMs(engine)
  for (const payout of engine.store.payouts.byId.values()) {
    const next = nextStatusOf(payout)
    if (next !== undefined)
      scheduleBy(engine, { kind: 'payout', id: payout.id, due_ms: now + delayOf(engine, next) })
  }
}

/** Schedules the next status of a payout, or nothing if its status is the last one. */
function scheduleNextStatus(engine: Engine, payout: Payout): void {
  const next = nextStatusOf(payout)
  if (next === undefined) unschedule(engine, 'payout', payout.id)
  else scheduleAfter(engine, 'payout', payout.id, delayOf(engine, next))
}

function nextStatusOf({ status, destination }: Payout): Next | undefined {
  const behavior: Behavior = BEHAVIORS[behaviorOf(BEHAVIORS, destination, 'success')]
  return behavior[status]
}

function delayOf({ late_return_ms }: Engine, { isLate }: Next): number {
  return isLate === true ? late_return_ms : SETTLE_DELAY_MS
}

function setPayoutStatus(engine: Engine, call: Call, payout: Payout, { status, failure }: Next): Payout {
  const code = status === 'failed' ? (failure ?? 'could_not_process') : null
  const isReturned = status === 'failed' || status === 'canceled'
  const moved = save(engine, {
    ...payout,
    status,
    failure: code === null ? null : { code, message: FAILURES[code] ?? `The bank says: ${code}.` },
    failure_balance_transaction: isReturned ? stripeId('txn_1') : null,
  })
  if (isReturned) record(engine, call, status === 'failed' ? 'payout_failed' : 'payout_canceled', moved)
  if (status === 'in_transit') emit(engine, call, 'payout.updated', moved, payout)
  else emit(engine, call, `payout.${status}`, moved)
  scheduleNextStatus(engine, moved)
  return moved
}

function updatePayout(engine: Engine, call: Call, payout: Payout, params: Params): Payout {
  const updated = save(engine, { ...payout, metadata: metadataOf(params, payout.metadata) })
  emit(engine, call, 'payout.updated', updated, payout)
  return updated
}

function record(engine: Engine, call: Call, effect: Effect['effect'], payout: Payout): void {
  const { id, amount, currency, metadata } = payout
  recordEffect(engine, call, effect, { payout: id, amount, currency, metadata })
}

export const PAYOUT_ROUTES: Routes = {
  'POST payouts': {
    object: 'payout',
    accepts: parameters(
      'amount currency description destination expand metadata method payout_method source_type statement_descriptor',
      { statement_descriptor: text(22) },
    ),
    one: (engine, call, _ids, params) => createPayout(engine, call, params),
  },
  'GET payouts': {
    object: 'payout',
    accepts: parameters(`${PAGING} arrival_date created destination status`),
    list: (engine, params) =>
      listOf(engine, params, '/v1/payouts', engine.store.payouts, {
        equal: ['destination', 'status'],
        ranges: ['arrival_date', 'created'],
      }),
  },
  'GET payouts/:id': {
    object: 'payout',
    accepts: parameters('expand'),
    one: (engine, _call, { id }) => findPayout(engine, id),
  },
  'POST payouts/:id': {
    object: 'payout',
    accepts: parameters('metadata expand'),
    one: (engine, call, { id }, params) => updatePayout(engine, call, findPayout(engine, id), params),
  },
  'POST payouts/:id/cancel': {
    object: 'payout',
    accepts: parameters('expand'),
    one: (engine, call, { id }) => cancelPayout(engine, call, findPayout(engine, id)),
  },
}

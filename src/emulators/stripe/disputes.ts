// Disputes: the buyer's bank withdraws captured money and reinstates it if the dispute is won; an inquiry withdraws
// no money.
import { BANK_CALL, type Call } from '../shared/call.ts'
import { recordEffect } from '../shared/effects.ts'
import { nowS, type Emulator } from './emulator.ts'
import { parameterRefused, requestRefused } from './errors.ts'
import { emit } from './events.ts'
import { stripeId } from './ids.ts'
import { schedule, SETTLE_DELAY_MS } from './schedule.ts'
import { requireObject, listOf } from './lists.ts'
import { methodOf } from './methods.ts'
import { booleanOf, metadataOf } from './params.ts'
import { isParams, type Params } from './parse.ts'
import { PAGING, type Routes } from './route.ts'
import { parameters } from './rules.ts'
import { save } from './store.ts'
import type { Charge, Dispute } from './versions.ts'

const DAY_S = 86_400
const DAYS_TO_RESPOND = 9
/** Stripe's dispute fee, in the smallest unit. */
const FEE = 1500
export const DISPUTE_FINAL_STATUSES = ['won', 'lost', 'warning_closed'] as const
type DisputeFinalStatus = (typeof DISPUTE_FINAL_STATUSES)[number]

/** Schedules the dispute that the test card of a captured charge triggers. */
export function scheduleDispute(emulator: Emulator, charge: Charge): void {
  const { dispute } = methodOf(charge.method.token)
  if (dispute === undefined) return
  schedule(emulator, SETTLE_DELAY_MS, () => {
    const current = emulator.store.charges.byId.get(charge.id)!
    const isOpen = emulator.store.childIdsOf.has(charge.id)
    if (!isOpen && current.amount_refunded < current.amount) openDispute(emulator, current, dispute)
  })
}

/** Resumes scheduled changes after a restart. */
export function resumeDisputes(emulator: Emulator): void {
  for (const charge of emulator.store.charges.byId.values())
    if (charge.captured && !emulator.store.childIdsOf.has(charge.id)) scheduleDispute(emulator, charge)
}

export function findDispute(emulator: Emulator, id: string): Dispute {
  return requireObject(emulator.store.disputes, 'dispute', id)
}

/** The latest dispute of a charge, if any. */
export function latestDisputeOf({ store }: Emulator, charge: string): Dispute | null {
  const id = store.childIdsOf.get(charge)?.at(-1)
  return id === undefined ? null : store.disputes.byId.get(id)!
}

/** Applies the decision of the bank. A lost dispute may still be won by an appeal. */
export function closeDispute(
  emulator: Emulator,
  call: Call,
  dispute: Dispute,
  status: DisputeFinalStatus,
): Dispute {
  const isInquiry = dispute.status.startsWith('warning_')
  const isFinal = dispute.status === 'won' || dispute.status === 'warning_closed'
  if (isFinal || dispute.status === status || isInquiry !== (status === 'warning_closed'))
    throw parameterRefused(`This dispute has a status of ${dispute.status}.`, 'status')
  const closed = save(emulator.store, {
    ...dispute,
    status,
    movements:
      status === 'won' ? [...dispute.movements, movement(emulator, dispute.amount, 0)] : dispute.movements,
  })
  if (status === 'won') {
    record(emulator, call, 'dispute_reinstated', closed)
    emit(emulator, call, 'charge.dispute.funds_reinstated', closed, dispute)
  }
  emit(emulator, call, 'charge.dispute.closed', closed, dispute)
  return closed
}

function openDispute(emulator: Emulator, charge: Charge, kind: 'chargeback' | 'inquiry'): void {
  const created = nowS(emulator)
  const amount = charge.amount - charge.amount_refunded
  const takesMoney = kind === 'chargeback'
  const opened = save(emulator.store, {
    object: 'dispute',
    id: stripeId('du_1'),
    created,
    revision: 0,
    payment_intent: charge.payment_intent,
    charge: charge.id,
    amount,
    currency: charge.currency,
    method: charge.method,
    reason: 'fraudulent',
    status: takesMoney ? 'needs_response' : 'warning_needs_response',
    due_by: (Math.floor(created / DAY_S) + DAYS_TO_RESPOND) * DAY_S - 1,
    evidence: {},
    submission_count: 0,
    movements: takesMoney ? [movement(emulator, -amount, FEE)] : [],
    metadata: {},
  })
  const disputed = save(emulator.store, { ...charge, disputed: true })
  if (takesMoney) record(emulator, BANK_CALL, 'dispute_withdrawn', opened)
  emit(emulator, BANK_CALL, 'charge.dispute.created', opened)
  emit(emulator, BANK_CALL, 'charge.updated', disputed, charge)
  if (takesMoney) emit(emulator, BANK_CALL, 'charge.dispute.funds_withdrawn', opened)
}

/** Updates the evidence, and submits it unless `submit` is false. */
function updateDispute(emulator: Emulator, call: Call, dispute: Dispute, params: Params): Dispute {
  const { evidence } = params
  if (evidence !== undefined && !isParams(evidence)) throw parameterRefused('Invalid hash', 'evidence')
  const submits = evidence !== undefined && (params['submit'] === undefined || booleanOf(params, 'submit'))
  const status = dispute.status === 'warning_needs_response' ? 'warning_under_review' : 'under_review'
  if (submits && !dispute.status.endsWith('needs_response'))
    throw requestRefused(
      null,
      'evidence',
      `This dispute has a status of ${dispute.status}: it accepts no evidence.`,
    )
  const updated = save(emulator.store, {
    ...dispute,
    metadata: metadataOf(params, dispute.metadata),
    evidence: { ...dispute.evidence, ...evidence },
    ...(submits && { status, submission_count: dispute.submission_count + 1 }),
  })
  emit(emulator, call, 'charge.dispute.updated', updated, dispute)
  return updated
}

/** Accepts the dispute as lost. */
function acceptDispute(emulator: Emulator, call: Call, dispute: Dispute): Dispute {
  if (dispute.status !== 'needs_response')
    throw requestRefused(
      null,
      undefined,
      `This dispute cannot be closed: it has a status of ${dispute.status}.`,
    )
  return closeDispute(emulator, call, dispute, 'lost')
}

function movement(emulator: Emulator, amount: number, fee: number): Dispute['movements'][number] {
  return { id: stripeId('txn_1'), created: nowS(emulator), amount, fee }
}

function record(
  emulator: Emulator,
  call: Call,
  effect: 'dispute_withdrawn' | 'dispute_reinstated',
  { id, payment_intent, amount, currency }: Dispute,
): void {
  // The dispute has no metadata: the metadata of its payment is used.
  const { metadata } = emulator.store.intents.byId.get(payment_intent)!
  recordEffect(emulator.effects, call, effect, { payment_intent, dispute: id, amount, currency, metadata })
}

export const DISPUTE_ROUTES: Routes = {
  'GET disputes': {
    object: 'dispute',
    accepts: parameters(`${PAGING} charge created payment_intent`),
    list: (emulator, params) =>
      listOf(emulator, params, '/v1/disputes', emulator.store.disputes, {
        equal: ['charge', 'payment_intent'],
      }),
  },
  'GET disputes/:id': {
    object: 'dispute',
    accepts: parameters('expand'),
    one: (emulator, _call, { id }) => findDispute(emulator, id),
  },
  'POST disputes/:id': {
    object: 'dispute',
    accepts: parameters('evidence expand intended_submission_method metadata submit'),
    one: (emulator, call, { id }, params) => updateDispute(emulator, call, findDispute(emulator, id), params),
  },
  'POST disputes/:id/close': {
    object: 'dispute',
    accepts: parameters('expand'),
    one: (emulator, call, { id }) => acceptDispute(emulator, call, findDispute(emulator, id)),
  },
}

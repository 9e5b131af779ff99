// Disputes: the buyer's bank withdraws captured money and reinstates it if the dispute is won; an inquiry withdraws
// no money.
import { BANK_CALL, type Call } from './call.ts'
import type { DueChange } from './due-changes.ts'
import { recordEffect } from './effects.ts'
import { nowMs, nowS, recordS, type Engine } from './engine.ts'
import { parameterRefused, requestRefused } from './errors.ts'
import { emit } from './events.ts'
import { stripeId } from './ids.ts'
import { requireObject, listOf } from './lists.ts'
import { methodOf, type TestMethod } from './methods.ts'
import { booleanOf, metadataOf } from './params.ts'
import { isParams, type Params } from './parse.ts'
import { PAGING, type Routes } from './route.ts'
import { parameters } from './rules.ts'
import { save } from './save.ts'
import { scheduleAfter, scheduleAt, scheduleBy, SETTLE_DELAY_MS, unschedule } from './schedule.ts'
import type { Charge, Dispute, Intent } from './versions.ts'

const DAY_S = 86_400
const DAYS_TO_RESPOND = 9
/** Stripe's dispute fee, in the smallest unit. */
const FEE = 1500
export const DISPUTE_FINAL_STATUSES = ['won', 'lost', 'warning_closed'] as const
type DisputeFinalStatus = (typeof DISPUTE_FINAL_STATUSES)[number]

type DisputeKind = NonNullable<TestMethod['dispute']>

/** Schedules the dispute that the test card of a captured charge triggers. */
export function scheduleDispute(engine: Engine, charge: Charge): void {
  if (dueDisputeOf(engine, charge) !== undefined) scheduleAfter(engine, 'dispute', charge.id, SETTLE_DELAY_MS)
}

/** Opens the scheduled dispute of a charge. */
export function openScheduledDispute(engine: Engine, charge_id: string): void {
  const charge = engine.store.charges.byId.get(charge_id)!
  const dispute = dueDisputeOf(engine, charge)
  if (dispute !== undefined) openDispute(engine, charge, dispute)
}

/** Schedules the disputes that the journal lacks. */
export function resumeDisputes(engine: Engine): void {
  const due_ms = nowMs(engine) + SETTLE_DELAY_MS
  for (const charge of engine.store.charges.byId.values())
    if (dueDisputeOf(engine, charge) !== undefined)
      scheduleBy(engine, { kind: 'dispute', id: charge.id, due_ms })
}

/** The dispute that the test card of a captured charge triggers. None if the charge has a dispute or is refunded. */
function dueDisputeOf(engine: Engine, charge: Charge): DisputeKind | undefined {
  return canBeDisputed(engine, charge) ? methodOf(charge.method.token).dispute : undefined
}

/** A dispute is lost if its merchant has not responded by the deadline. An inquiry stays open. */
export function loseUnansweredDispute(engine: Engine, id: string): void {
  const dispute = findDispute(engine, id)
  if (dispute.status === 'needs_response') closeDispute(engine, BANK_CALL, dispute, 'lost')
}

/** Schedules the deadlines that the journal lacks. */
export function resumeDisputeDeadlines(engine: Engine): void {
  for (const dispute of engine.store.disputes.byId.values())
    if (dispute.status === 'needs_response') scheduleBy(engine, deadlineOf(dispute))
}

function deadlineOf({ id, due_by }: Dispute): DueChange {
  return { kind: 'dispute_deadline', id, due_ms: (due_by + 1) * 1000 }
}

function canBeDisputed({ store }: Engine, charge: Charge): boolean {
  return charge.captured && !store.childIdsOf.has(charge.id) && charge.amount_refunded < charge.amount
}

export function findDispute(engine: Engine, id: string): Dispute {
  return requireObject(engine.store.disputes, 'dispute', id)
}

/** The latest dispute of a charge, if any. */
export function latestDisputeOf({ store }: Engine, charge: string): Dispute | null {
  const id = store.childIdsOf.get(charge)?.at(-1)
  return id === undefined ? null : store.disputes.byId.get(id)!
}

/** Applies the decision of the bank. A lost dispute may still be won by an appeal. */
export function closeDispute(
  engine: Engine,
  call: Call,
  dispute: Dispute,
  status: DisputeFinalStatus,
): Dispute {
  const isInquiry = dispute.status.startsWith('warning_')
  const isFinal = dispute.status === 'won' || dispute.status === 'warning_closed'
  if (isFinal || dispute.status === status || isInquiry !== (status === 'warning_closed'))
    throw parameterRefused(`This dispute has a status of ${dispute.status}.`, 'status')
  unschedule(engine, 'dispute_deadline', dispute.id)
  const closed = save(engine, {
    ...dispute,
    status,
    movements:
      status === 'won' ? [...dispute.movements, movement(engine, dispute.amount, 0)] : dispute.movements,
  })
  if (status === 'won') {
    record(engine, call, 'dispute_reinstated', closed)
    emit(engine, call, 'charge.dispute.funds_reinstated', closed, dispute)
  }
  emit(engine, call, 'charge.dispute.closed', closed, dispute)
  return closed
}

/** Opens a dispute of a captured payment intent, as the buyer's bank does. */
export function disputeIntent(engine: Engine, { id, latest_charge }: Intent): void {
  const charge = latest_charge === null ? undefined : engine.store.charges.byId.get(latest_charge)
  if (charge === undefined || !canBeDisputed(engine, charge))
    throw parameterRefused(`The payment ${id} has no captured amount without a dispute.`, 'payment_intent')
  openDispute(engine, charge, 'chargeback')
}

function openDispute(engine: Engine, charge: Charge, kind: DisputeKind): void {
  const amount = charge.amount - charge.amount_refunded
  const takesMoney = kind === 'chargeback'
  const opened = save(engine, {
    object: 'dispute',
    id: stripeId('du_1'),
    created: recordS(engine),
    revision: 0,
    payment_intent: charge.payment_intent,
    charge: charge.id,
    amount,
    currency: charge.currency,
    method: charge.method,
    reason: 'fraudulent',
    status: takesMoney ? 'needs_response' : 'warning_needs_response',
    due_by: (Math.floor(nowS(engine) / DAY_S) + DAYS_TO_RESPOND) * DAY_S - 1,
    evidence: {},
    submission_count: 0,
    movements: takesMoney ? [movement(engine, -amount, FEE)] : [],
    metadata: {},
  })
  const disputed = save(engine, { ...charge, disputed: true })
  if (takesMoney) scheduleAt(engine, deadlineOf(opened))
  if (takesMoney) record(engine, BANK_CALL, 'dispute_withdrawn', opened)
  emit(engine, BANK_CALL, 'charge.dispute.created', opened)
  emit(engine, BANK_CALL, 'charge.updated', disputed, charge)
  if (takesMoney) emit(engine, BANK_CALL, 'charge.dispute.funds_withdrawn', opened)
}

/** Updates the evidence, and submits it unless `submit` is false. */
function updateDispute(engine: Engine, call: Call, dispute: Dispute, params: Params): Dispute {
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
  if (submits) unschedule(engine, 'dispute_deadline', dispute.id)
  const updated = save(engine, {
    ...dispute,
    metadata: metadataOf(params, dispute.metadata),
    evidence: { ...dispute.evidence, ...evidence },
    ...(submits && { status, submission_count: dispute.submission_count + 1 }),
  })
  emit(engine, call, 'charge.dispute.updated', updated, dispute)
  return updated
}

/** Accepts the dispute as lost. */
function acceptDispute(engine: Engine, call: Call, dispute: Dispute): Dispute {
  if (dispute.status !== 'needs_response')
    throw requestRefused(
      null,
      undefined,
      `This dispute cannot be closed: it has a status of ${dispute.status}.`,
    )
  return closeDispute(engine, call, dispute, 'lost')
}

function movement(engine: Engine, amount: number, fee: number): Dispute['movements'][number] {
  return { id: stripeId('txn_1'), created: recordS(engine), amount, fee }
}

function record(
  engine: Engine,
  call: Call,
  effect: 'dispute_withdrawn' | 'dispute_reinstated',
  { id, payment_intent, amount, currency }: Dispute,
): void {
  // The dispute has no metadata: the metadata of its payment is used.
  const { metadata } = engine.store.intents.byId.get(payment_intent)!
  recordEffect(engine, call, effect, { payment_intent, dispute: id, amount, currency, metadata })
}

export const DISPUTE_ROUTES: Routes = {
  'GET disputes': {
    object: 'dispute',
    accepts: parameters(`${PAGING} charge created payment_intent`),
    list: (engine, params) =>
      listOf(engine, params, '/v1/disputes', engine.store.disputes, {
        equal: ['charge', 'payment_intent'],
      }),
  },
  'GET disputes/:id': {
    object: 'dispute',
    accepts: parameters('expand'),
    one: (engine, _call, { id }) => findDispute(engine, id),
  },
  'POST disputes/:id': {
    object: 'dispute',
    accepts: parameters('evidence expand intended_submission_method metadata submit'),
    one: (engine, call, { id }, params) => updateDispute(engine, call, findDispute(engine, id), params),
  },
  'POST disputes/:id/close': {
    object: 'dispute',
    accepts: parameters('expand'),
    one: (engine, call, { id }) => acceptDispute(engine, call, findDispute(engine, id)),
  },
}

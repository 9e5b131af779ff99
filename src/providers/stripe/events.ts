// Converts Stripe's events: the stored part of an event, its target, and the state that it reports. Makes no requests.
import { z } from 'zod'
import type { Json } from '#core/db.ts'
import { toStorableJson } from '#core/json.ts'
import type { ProviderEventTarget, ProviderEvent, ReportedStatus } from '../events.ts'
import { hasSluiceIds } from '../payments.ts'
import { PAYMENT_STATUS, PAYOUT_STATUS, REFUND_STATUS, TOP_UP_STATUS } from './statuses.ts'

/** The API version of the SDK. Events of another version may have another meaning. */
export const API_VERSION = '2026-10-28.endive'

/** The required fields of an event; other fields are stored unchanged. */
const eventSchema = z.looseObject({
  id: z.string().min(1).max(255),
  type: z.string().min(1).max(255),
  account: z.string().max(255).optional(),
  api_version: z.string().nullish().catch(null),
  data: z.looseObject({
    object: z.looseObject({ id: z.string().max(255).optional(), object: z.string().optional() }),
  }),
})

/**
 * Fields that are not stored, because they contain tokens, URLs with tokens or personal data. A lookup can read them
 * again.
 */
const REMOVED_FIELDS = new Set([
  'client_secret',
  'payment_method',
  'next_action',
  'source',
  'url',
  'provided_details',
  'verified_outputs',
  'evidence',
  'billing_details',
  'receipt_email',
  'receipt_url',
  'shipping',
])

/**
 * Parses an event from a webhook or from the list of events. Undefined if the value is not an event or is nested too
 * deeply.
 */
export function readEvent(value: unknown): ProviderEvent | undefined {
  const event = eventSchema.safeParse(toStorableJson(value, REMOVED_FIELDS))
  if (!event.success) return undefined
  const { id, type, account = '', api_version, data } = event.data
  return {
    account,
    event_id: id,
    kind: type,
    object_id: data.object.id ?? null,
    payload: event.data as Json,
    is_relevant: !IRRELEVANT_TYPES.has(type),
    created_for: CREATION_TYPES.has(type) ? creationIdsOf(data.object) : null,
    reported: account === '' && api_version === API_VERSION ? reportedBy(type, data.object) : null,
  }
}

const anyEvent = z.looseObject({ id: z.string().min(1).max(255), type: z.string().min(1).max(255) })

/**
 * Whether this is an event of Stripe in any format, including formats that are not stored, such as a thin event
 * (`v2.core.event`).
 */
export function isEventOfAnyForm(value: unknown): boolean {
  return anyEvent.safeParse(value).success
}

/**
 * Event types of tracked objects that change nothing, because another event reports the same. They are listed one by
 * one: a prefix would also match other events, such as those of disputes.
 */
const IRRELEVANT_TYPES: ReadonlySet<string> = new Set([
  'charge.captured',
  'charge.failed',
  'charge.pending',
  'charge.succeeded',
  'charge.updated',
  'identity.verification_session.created',
  'payment_intent.created',
  'payout.created',
  'payout.reconciliation_completed',
  'topup.created',
])

/**
 * The creation events of objects that may be unused duplicates: the creation event may be the only event about such a
 * duplicate.
 */
const CREATION_TYPES: ReadonlySet<string> = new Set([
  'identity.verification_session.created',
  'payment_intent.created',
])

const targetSchema = z.object({
  data: z.object({
    object: z.object({
      object: z.string(),
      id: z.string(),
      payment_intent: z.string().nullish(),
      metadata: z.record(z.string(), z.unknown()).nullish().catch(null),
    }),
  }),
})

type EventObject = z.output<typeof targetSchema>['data']['object']

const amount = z.int().min(0)
const reportedObjectSchema = z.object({
  object: z.string(),
  id: z.string(),
  /** Transfers have no status. */
  status: z.string().nullish(),
  amount,
  currency: z.string().length(3).toUpperCase(),
  amount_capturable: amount.nullable().catch(null),
  amount_received: amount.nullable().catch(null),
  amount_reversed: amount.nullable().catch(null),
  reversed: z.boolean().nullish(),
  // A longer value makes the event unreadable, so the object is looked up.
  cancellation_reason: z.string().max(255).nullish(),
  metadata: z.record(z.string(), z.unknown()).nullish().catch(null),
})
type ReportedObject = z.output<typeof reportedObjectSchema>

type TrackedObject = {
  /** The event types that change the stored resource. `conclusive`: the event contains the complete new state. */
  events: { conclusive: string[]; inconclusive: string[] }
  target: (
    object: EventObject,
  ) => Pick<ProviderEventTarget, 'resource' | 'reference' | 'parent_reference'> | null
  /** The name of the metadata field with the id of the resource to which the object's jobs are assigned. */
  root_id: string
  /** The status of the resource, and the amount that belongs to it. */
  reported: (object: ReportedObject) => { status: string | undefined; status_amount_minor: number | null }
}

/** The tracked objects, by Stripe's `object` field. */
const TRACKED_OBJECTS: Readonly<Record<string, TrackedObject>> = {
  payment_intent: {
    events: {
      conclusive: [
        'payment_intent.amount_capturable_updated',
        'payment_intent.canceled',
        'payment_intent.succeeded',
      ],
      // Always looked up: a failure, and a required action of the buyer.
      inconclusive: [
        'payment_intent.payment_failed',
        'payment_intent.processing',
        'payment_intent.requires_action',
      ],
    },
    target: ({ id }) => ({ resource: 'payment', reference: id, parent_reference: null }),
    root_id: 'sluice_payment_id',
    reported: ({ status, amount_capturable, amount_received }) => {
      const own_status = PAYMENT_STATUS.get(status ?? '')
      const amounts = { authorized: amount_capturable, captured: amount_received }
      return { status: own_status, status_amount_minor: amounts[own_status as keyof typeof amounts] ?? null }
    },
  },
  refund: {
    events: { conclusive: ['refund.created', 'refund.failed', 'refund.updated'], inconclusive: [] },
    target: ({ id, payment_intent = null }) => ({
      resource: 'refund',
      reference: id,
      parent_reference: payment_intent,
    }),
    root_id: 'sluice_payment_id',
    reported: ({ status }) => ({ status: REFUND_STATUS.get(status ?? null), status_amount_minor: null }),
  },
  dispute: {
    events: {
      conclusive: [],
      // Always looked up: the event does not contain all movements, and the status can go back.
      inconclusive: [
        'charge.dispute.closed',
        'charge.dispute.created',
        'charge.dispute.funds_reinstated',
        'charge.dispute.funds_withdrawn',
        'charge.dispute.updated',
      ],
    },
    target: ({ id, payment_intent = null }) => ({
      resource: 'dispute',
      reference: id,
      parent_reference: payment_intent,
    }),
    root_id: 'sluice_payment_id',
    reported: () => ({ status: undefined, status_amount_minor: null }),
  },
  payout: {
    events: {
      conclusive: ['payout.canceled', 'payout.paid'],
      // Always looked up: a failure, and a change of the arrival date.
      inconclusive: ['payout.failed', 'payout.updated'],
    },
    target: ({ id }) => ({ resource: 'payout', reference: id, parent_reference: null }),
    root_id: 'sluice_payout_id',
    reported: ({ status }) => ({ status: PAYOUT_STATUS.get(status ?? ''), status_amount_minor: null }),
  },
  // A transfer is paid when it is created. Reversals return parts of it or all of it.
  transfer: {
    events: { conclusive: ['transfer.created', 'transfer.updated'], inconclusive: ['transfer.reversed'] },
    target: ({ id }) => ({ resource: 'payout', reference: id, parent_reference: null }),
    root_id: 'sluice_payout_id',
    reported: ({ reversed, amount_reversed }) => ({
      status: reversed === false ? 'paid' : undefined,
      status_amount_minor: amount_reversed,
    }),
  },
  topup: {
    events: {
      conclusive: ['topup.canceled', 'topup.failed', 'topup.reversed', 'topup.succeeded'],
      inconclusive: [],
    },
    target: ({ id }) => ({ resource: 'top_up', reference: id, parent_reference: null }),
    root_id: 'sluice_top_up_id',
    reported: ({ status }) => ({ status: TOP_UP_STATUS.get(status ?? ''), status_amount_minor: null }),
  },
  'identity.verification_session': {
    events: {
      conclusive: [],
      // Always looked up, because the status can go back.
      inconclusive: [
        'identity.verification_session.canceled',
        'identity.verification_session.created',
        'identity.verification_session.processing',
        'identity.verification_session.redacted',
        'identity.verification_session.requires_input',
        'identity.verification_session.verified',
      ],
    },
    target: ({ id }) => ({ resource: 'kyc', reference: id, parent_reference: null }),
    root_id: 'sluice_kyc_id',
    reported: () => ({ status: undefined, status_amount_minor: null }),
  },
  // All changes of a charge are reported by events of its payment and of its refunds.
  charge: {
    events: { conclusive: [], inconclusive: [] },
    target: ({ payment_intent }) =>
      payment_intent == null
        ? null
        : { resource: 'payment', reference: payment_intent, parent_reference: null },
    root_id: 'sluice_payment_id',
    reported: () => ({ status: undefined, status_amount_minor: null }),
  },
}

/** The event types that the webhook endpoint at Stripe needs. */
export const EVENT_TYPES = Object.values(TRACKED_OBJECTS)
  .flatMap(({ events }) => [...events.conclusive, ...events.inconclusive])
  .toSorted()

/** The target of a stored event; null if the object is not tracked. */
export function eventTargetOf(payload: Json): ProviderEventTarget | null {
  const about = targetSchema.safeParse(payload).data?.data.object
  if (about === undefined || !Object.hasOwn(TRACKED_OBJECTS, about.object)) return null
  const target = TRACKED_OBJECTS[about.object]!.target(about)
  return target && { ...target, has_sluice_ids: hasSluiceIds(about.metadata ?? {}) }
}

/** The state that an object shows; null if a lookup is needed. `type`: of its event; null for an object of a list. */
export function reportedBy(type: string | null, value: unknown): ReportedStatus | null {
  const object = reportedObjectSchema.safeParse(value).data
  if (object === undefined || !Object.hasOwn(TRACKED_OBJECTS, object.object)) return null
  const tracked = TRACKED_OBJECTS[object.object]!
  if (type !== null && !tracked.events.conclusive.includes(type)) return null
  const { status, status_amount_minor } = tracked.reported(object)
  const about = tracked.target({ ...object, metadata: null })
  if (status === undefined || about === null) return null
  return {
    resource: about.resource,
    reference: about.reference,
    status,
    amount_minor: object.amount,
    currency: object.currency,
    status_amount_minor,
    reason: object.cancellation_reason ?? null,
    tenant_id: idIn(object, 'sluice_tenant_id'),
    root_id: idIn(object, tracked.root_id),
  }
}

/** The Sluice ids of a created object; null if the object has none. */
function creationIdsOf(value: unknown): ProviderEvent['created_for'] {
  const object = targetSchema.shape.data.shape.object.safeParse(value).data
  if (object === undefined || !Object.hasOwn(TRACKED_OBJECTS, object.object)) return null
  const tenant_id = idIn(object, 'sluice_tenant_id')
  const root_id = idIn(object, TRACKED_OBJECTS[object.object]!.root_id)
  return tenant_id === null || root_id === null ? null : { tenant_id, root_id }
}

function idIn({ metadata }: Pick<ReportedObject, 'metadata'>, name: string): string | null {
  return z.uuid().safeParse(metadata?.[name]).data ?? null
}

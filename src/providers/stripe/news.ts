// Stripe's events in our words: what is kept of one, and what it is about. Asks nobody.
import { z } from 'zod'
import type { Json } from '#core/db.ts'
import { storable } from '#core/json.ts'
import type { News, ProviderEvent, Said } from '../news.ts'
import { isMarked } from '../payments.ts'
import { PAYMENT_STATUS, PAYOUT_STATUS, REFUND_STATUS, TOP_UP_STATUS } from './statuses.ts'

/** The version of Stripe's API that our SDK speaks; events of another version may mean something else. */
export const API_VERSION = '2026-10-28.endive'

/** What we need of an event; the rest is kept as it came. */
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
 * What an event tells and nobody here needs: tokens, addresses that carry one, and what is personal. Stripe can be asked
 * for them.
 */
const SECRETS = new Set([
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

/** An event, sent by Stripe or read from its list. Undefined when it is none, or nested as no event is. */
export function readEvent(value: unknown): ProviderEvent | undefined {
  const event = eventSchema.safeParse(storable(value, SECRETS))
  if (!event.success) return undefined
  const { id, type, account = '', api_version, data } = event.data
  return {
    account,
    event_id: id,
    kind: type,
    object_id: data.object.id ?? null,
    payload: event.data as Json,
    matters: !NEVER_MATTERS.has(type),
    made: MADE.has(type) ? madeBy(data.object) : null,
    said: account === '' && api_version === API_VERSION ? saidBy(type, data.object) : null,
  }
}

const anyEvent = z.looseObject({ id: z.string().min(1).max(255), type: z.string().min(1).max(255) })

/** Whether this names itself as an event, whatever its form: a thin one (`v2.core.event`), or one of a form to come. */
export function isEventOfAnyForm(value: unknown): boolean {
  return anyEvent.safeParse(value).success
}

/**
 * Events of what we follow that tell nothing: another event tells it too. Each is named, because a prefix would take
 * in others, e.g. those of disputes.
 */
const NEVER_MATTERS: ReadonlySet<string> = new Set([
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

/** The events that tell of a duplicate for which nothing else happens: nobody has its page, or its secret. */
const MADE: ReadonlySet<string> = new Set(['identity.verification_session.created', 'payment_intent.created'])

const aboutSchema = z.object({
  data: z.object({
    object: z.object({
      object: z.string(),
      id: z.string(),
      payment_intent: z.string().nullish(),
      metadata: z.record(z.string(), z.unknown()).nullish().catch(null),
    }),
  }),
})

type EventObject = z.output<typeof aboutSchema>['data']['object']

const amount = z.int().min(0)
const sayingSchema = z.object({
  object: z.string(),
  id: z.string(),
  /** A transfer has none. */
  status: z.string().nullish(),
  amount,
  currency: z.string().length(3).toUpperCase(),
  amount_capturable: amount.nullable().catch(null),
  amount_received: amount.nullable().catch(null),
  amount_reversed: amount.nullable().catch(null),
  reversed: z.boolean().nullish(),
  // Stripe has a handful of short ones; whatever else it says here, it is asked again.
  cancellation_reason: z.string().max(255).nullish(),
  metadata: z.record(z.string(), z.unknown()).nullish().catch(null),
})
type SaidObject = z.output<typeof sayingSchema>

type Followed = {
  /** The events that change what we keep of it: those whose object says all that we would ask for, and the others. */
  events: { saying: string[]; others: string[] }
  news: (object: EventObject) => Pick<News, 'subject' | 'reference' | 'part_of'> | null
  /** In its metadata: our id of the row under which its jobs are filed. */
  filed_id: string
  /** The status in our words, and the amount that goes with it. */
  said: (object: SaidObject) => { status: string | undefined; part_minor: number | null }
}

/** What we follow, by the word with which Stripe's objects say what they are. */
const FOLLOWED: Readonly<Record<string, Followed>> = {
  payment_intent: {
    events: {
      saying: [
        'payment_intent.amount_capturable_updated',
        'payment_intent.canceled',
        'payment_intent.succeeded',
      ],
      // A failure is always news, and so is what the buyer has to do.
      others: [
        'payment_intent.payment_failed',
        'payment_intent.processing',
        'payment_intent.requires_action',
      ],
    },
    news: ({ id }) => ({ subject: 'payment', reference: id, part_of: null }),
    filed_id: 'sluice_payment_id',
    said: ({ status, amount_capturable, amount_received }) => {
      const ours = PAYMENT_STATUS.get(status ?? '')
      const parts = { authorized: amount_capturable, captured: amount_received }
      return { status: ours, part_minor: parts[ours as keyof typeof parts] ?? null }
    },
  },
  refund: {
    events: { saying: ['refund.created', 'refund.failed', 'refund.updated'], others: [] },
    news: ({ id, payment_intent = null }) => ({ subject: 'refund', reference: id, part_of: payment_intent }),
    filed_id: 'sluice_payment_id',
    said: ({ status }) => ({ status: REFUND_STATUS.get(status ?? null), part_minor: null }),
  },
  dispute: {
    events: {
      saying: [],
      // What moved by it is not all in the event, and its statuses go back and forth.
      others: [
        'charge.dispute.closed',
        'charge.dispute.created',
        'charge.dispute.funds_reinstated',
        'charge.dispute.funds_withdrawn',
        'charge.dispute.updated',
      ],
    },
    news: ({ id, payment_intent = null }) => ({ subject: 'dispute', reference: id, part_of: payment_intent }),
    filed_id: 'sluice_payment_id',
    said: () => ({ status: undefined, part_minor: null }),
  },
  payout: {
    events: {
      saying: ['payout.canceled', 'payout.paid'],
      // A failure is always news, and so may be when it arrives.
      others: ['payout.failed', 'payout.updated'],
    },
    news: ({ id }) => ({ subject: 'payout', reference: id, part_of: null }),
    filed_id: 'sluice_payout_id',
    said: ({ status }) => ({ status: PAYOUT_STATUS.get(status ?? ''), part_minor: null }),
  },
  // Paid as soon as it is made; what is reversed comes back, in parts perhaps.
  transfer: {
    events: { saying: ['transfer.created', 'transfer.updated'], others: ['transfer.reversed'] },
    news: ({ id }) => ({ subject: 'payout', reference: id, part_of: null }),
    filed_id: 'sluice_payout_id',
    said: ({ reversed, amount_reversed }) => ({
      status: reversed === false ? 'paid' : undefined,
      part_minor: amount_reversed,
    }),
  },
  topup: {
    events: {
      saying: ['topup.canceled', 'topup.failed', 'topup.reversed', 'topup.succeeded'],
      others: [],
    },
    news: ({ id }) => ({ subject: 'top_up', reference: id, part_of: null }),
    filed_id: 'sluice_top_up_id',
    said: ({ status }) => ({ status: TOP_UP_STATUS.get(status ?? ''), part_minor: null }),
  },
  'identity.verification_session': {
    events: {
      saying: [],
      // How it stands follows no order, so it is asked for.
      others: [
        'identity.verification_session.canceled',
        'identity.verification_session.created',
        'identity.verification_session.processing',
        'identity.verification_session.redacted',
        'identity.verification_session.requires_input',
        'identity.verification_session.verified',
      ],
    },
    news: ({ id }) => ({ subject: 'kyc', reference: id, part_of: null }),
    filed_id: 'sluice_kyc_id',
    said: () => ({ status: undefined, part_minor: null }),
  },
  // A charge changes with its payment, whose events tell as much, and its refunds have events of their own.
  charge: {
    events: { saying: [], others: [] },
    news: ({ payment_intent }) =>
      payment_intent == null ? null : { subject: 'payment', reference: payment_intent, part_of: null },
    filed_id: 'sluice_payment_id',
    said: () => ({ status: undefined, part_minor: null }),
  },
}

/** The types of the events that change what we keep: an endpoint at Stripe needs these and no others. */
export const EVENT_TYPES = Object.values(FOLLOWED)
  .flatMap(({ events }) => [...events.saying, ...events.others])
  .toSorted()

/** What an event is about; null where that is nothing that we follow. */
export function newsOf(payload: Json): News | null {
  const about = aboutSchema.safeParse(payload).data?.data.object
  if (about === undefined || !Object.hasOwn(FOLLOWED, about.object)) return null
  const news = FOLLOWED[about.object]!.news(about)
  return news && { ...news, marked: isMarked(about.metadata ?? {}) }
}

/** What an event of a followed object says outright; null when Stripe must be asked. */
function saidBy(type: string, value: unknown): Said | null {
  const object = sayingSchema.safeParse(value).data
  if (object === undefined || !Object.hasOwn(FOLLOWED, object.object)) return null
  const followed = FOLLOWED[object.object]!
  if (!followed.events.saying.includes(type)) return null
  const { status, part_minor } = followed.said(object)
  const about = followed.news({ ...object, metadata: null })
  if (status === undefined || about === null) return null
  return {
    subject: about.subject,
    reference: about.reference,
    status,
    amount_minor: object.amount,
    currency: object.currency,
    part_minor,
    reason: object.cancellation_reason ?? null,
    tenant_id: idIn(object, 'sluice_tenant_id'),
    filed_id: idIn(object, followed.filed_id),
  }
}

/** Our ids in what was made; null when it carries none. */
function madeBy(value: unknown): ProviderEvent['made'] {
  const object = aboutSchema.shape.data.shape.object.safeParse(value).data
  if (object === undefined || !Object.hasOwn(FOLLOWED, object.object)) return null
  const tenant_id = idIn(object, 'sluice_tenant_id')
  const filed_id = idIn(object, FOLLOWED[object.object]!.filed_id)
  return tenant_id === null || filed_id === null ? null : { tenant_id, filed_id }
}

function idIn({ metadata }: Pick<SaidObject, 'metadata'>, name: string): string | null {
  return z.uuid().safeParse(metadata?.[name]).data ?? null
}

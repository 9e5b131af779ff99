// Stripe's events in our words: what is kept of one, and what it is about. Asks nobody.
import { z } from 'zod'
import type { Json } from '#core/db.ts'
import { storable } from '#core/json.ts'
import type { News, ProviderEvent } from '../news.ts'
import { isMarked } from '../payments.ts'

/** What we need of an event; the rest is kept as it came. */
const eventSchema = z.looseObject({
  id: z.string().min(1).max(255),
  type: z.string().min(1).max(255),
  account: z.string().max(255).optional(),
  data: z.looseObject({
    object: z.looseObject({ id: z.string().max(255).optional(), object: z.string().optional() }),
  }),
})

/** What an event tells and nobody here needs: tokens, and addresses that carry one. Stripe can be asked for them. */
const SECRETS = new Set(['client_secret', 'payment_method', 'next_action'])

/** An event, sent by Stripe or read from its list. Undefined when it is none, or nested as no event is. */
export function readEvent(value: unknown): ProviderEvent | undefined {
  const event = eventSchema.safeParse(storable(value, SECRETS))
  if (!event.success) return undefined
  const { id, type, account = '', data } = event.data
  return { account, event_id: id, kind: type, object_id: data.object.id ?? null, payload: event.data as Json }
}

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
type Followed = {
  /** The events that change what we keep of it. */
  events: string[]
  news: (object: EventObject) => Pick<News, 'subject' | 'reference' | 'part_of'> | null
}

/** What we follow, by the word with which Stripe's objects say what they are. */
const FOLLOWED: Readonly<Record<string, Followed>> = {
  payment_intent: {
    events: [
      'payment_intent.amount_capturable_updated',
      'payment_intent.canceled',
      'payment_intent.payment_failed',
      'payment_intent.processing',
      'payment_intent.requires_action',
      'payment_intent.succeeded',
    ],
    news: ({ id }) => ({ subject: 'payment', reference: id, part_of: null }),
  },
  refund: {
    events: ['refund.created', 'refund.failed', 'refund.updated'],
    news: ({ id, payment_intent = null }) => ({ subject: 'refund', reference: id, part_of: payment_intent }),
  },
  // A charge changes with its payment, whose events tell as much. Its refunds have events of their own:
  // `charge.refunded` also fires when an uncaptured hold is released.
  charge: {
    events: [],
    news: ({ payment_intent }) =>
      payment_intent == null ? null : { subject: 'payment', reference: payment_intent, part_of: null },
  },
}

/** The types of the events that change what we keep. */
export const EVENT_TYPES = Object.values(FOLLOWED).flatMap(({ events }) => events)

/** What an event is about; null where that is nothing that we follow. */
export function newsOf(payload: Json): News | null {
  const about = aboutSchema.safeParse(payload).data?.data.object
  if (about === undefined || !Object.hasOwn(FOLLOWED, about.object)) return null
  const news = FOLLOWED[about.object]!.news(about)
  return news && { ...news, marked: isMarked(about.metadata ?? {}) }
}

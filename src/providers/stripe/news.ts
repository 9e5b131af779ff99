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

/** What an event is about; null where that is nothing that we follow. */
export function newsOf(payload: Json): News | null {
  const about = aboutSchema.safeParse(payload).data?.data.object
  if (about === undefined) return null
  const { object, id, payment_intent: payment = null } = about
  const marked = isMarked(about.metadata ?? {})
  if (object === 'payment_intent') return { subject: 'payment', reference: id, part_of: null, marked }
  if (object === 'refund') return { subject: 'refund', reference: id, part_of: payment, marked }
  // A charge changes with its payment, and bears the same ids. Its refunds come as events of their own:
  // `charge.refunded` also fires when an uncaptured hold is released.
  if (object === 'charge' && payment !== null)
    return { subject: 'payment', reference: payment, part_of: null, marked }
  return null
}

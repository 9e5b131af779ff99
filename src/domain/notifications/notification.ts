// Notifications from providers: their stored form, and their lookup by id.
import { providerKey } from '#core/config/providers.ts'
import type { Json, Sql } from '#core/db.ts'
import { derivedId } from '#core/ids.ts'

/**
 * The `kind` of a lookup: a notification that we write ourselves, as if the provider had notified us about the
 * object.
 */
export const LOOKUP_KIND = 'reconciliation.lookup'

/** The reasons for which a notification is parked or was finally ignored. */
const PARKED_REASONS = [
  /** The notification's object carries our ids, but is not known here yet. */
  'not_known_here',
  /** The notification's object carries none of our ids: it belongs to another application. */
  'not_ours',
  /** The processor does not know the notification's object. */
  'not_at_processor',
  /**
   * The notification reports a refund of more than the captured amount that is left for refunds here, or a dispute of
   * an uncaptured payment.
   */
  'does_not_fit',
  /** The notification's object is a duplicate, at the processor, of the object of one of our rows. */
  'duplicate',
  /** The notification's object was created here, and no row can be made for it. */
  'orphan',
  /** The processor's refunded amount differs from ours; another notification may be on its way. */
  'refunds_differ',
  /** The processor did not answer the lookup, or refused it. */
  'no_answer',
  /** The worker was killed or the handler threw an error, repeatedly. */
  'poison',
] as const
export type ParkedReason = (typeof PARKED_REASONS)[number]

/** A provider in one of the modes: test mode has an account of its own there. */
export type ProviderMode = { provider: string; livemode: boolean }

export type Notification = {
  id: string
  provider: string
  account: string
  event_id: string
  /** False: it reaches only tenants in test mode. True: it reaches only the others. */
  livemode: boolean
  kind: string
  /** The provider's id of the object that the notification reports. */
  object_id: string | null
  payload: Json
}

/**
 * Converts a provider's event to a notification. All notifications of one event have the same id, whether the event was
 * received or read from the provider's list.
 */
export function notificationOf<Event extends Omit<Notification, 'id' | 'provider' | 'livemode'>>(
  { provider, livemode }: ProviderMode,
  event: Event,
): Event & Notification {
  const { account, event_id } = event
  return { ...event, provider, livemode, id: derivedId(providerKey(provider, livemode), account, event_id) }
}

/** A stored notification with its state. */
export type StoredNotification = Notification & {
  state: 'received' | 'waiting' | 'applied' | 'parked' | 'ignored'
  /**
   * The reason for which the notification is parked, and the time since which it is parked for this reason; null if
   * it is not parked.
   */
  reason: ParkedReason | null
  parked_ms: number | null
  received_at: string
}

/** One notification, or undefined. */
export async function findNotification(sql: Sql, id: string): Promise<StoredNotification | undefined> {
  const [row] = await sql<StoredNotification[]>`
    select id, provider, account, event_id, livemode, kind, object_id, payload, state, reason, received_at,
      extract(epoch from now() - parked_at)::float8 * 1000 as parked_ms
    from notifications where id = ${id}`
  return row
}

/** The number of parked notifications of live mode by reason, each counted up to `limit`. */
export async function countParked(
  sql: Sql,
  limit: number,
): Promise<{ reason: ParkedReason; count: number }[]> {
  return await sql<{ reason: ParkedReason; count: number }[]>`
    select requested.reason, parked.count from unnest(${[...PARKED_REASONS]}::text[]) as requested(reason)
    cross join lateral (
      select count(*) from (
        select from notifications n
        where n.parked_at is not null and n.reason = requested.reason and n.livemode limit ${limit}) n
    ) parked`
}

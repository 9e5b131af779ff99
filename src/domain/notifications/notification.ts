// Notifications from providers: what is kept of one, and how it is found.
import type { Json, Sql } from '#core/db.ts'
import { derivedId } from '#core/ids.ts'

/** Why a notification is parked, or was ignored in the end. */
const PARKED_REASONS = [
  /** Its object carries our mark but is not known here yet. */
  'not_known_here',
  /** Its object carries no mark of ours: it belongs to another application. */
  'not_ours',
  /** The processor does not know its object. */
  'not_at_processor',
  /** A refund for which what is captured and not reserved here leaves no room yet, or a dispute of what is not captured. */
  'does_not_fit',
  /** Its object is the second that the processor has of a row of ours. */
  'second',
  /** The processor has refunded more or less than we know of; another notification may be on its way. */
  'refunds_differ',
  /** The processor could not be asked: it is away, or refuses our requests. */
  'no_answer',
  /** Its worker was killed, or its handler threw, again and again. */
  'poison',
] as const
export type ParkedReason = (typeof PARKED_REASONS)[number]

export type Notification = {
  id: string
  provider: string
  account: string
  event_id: string
  kind: string
  /** The provider's id of the object that it is about. */
  object_id: string | null
  payload: Json
}

/**
 * A provider's event as a notification. The same event always has the same id, whether it was sent or read from the
 * provider's list.
 */
export function notificationOf<Event extends Omit<Notification, 'id' | 'provider'>>(
  provider: string,
  event: Event,
): Event & Notification {
  const { account, event_id } = event
  return { ...event, provider, id: derivedId(provider, account, event_id) }
}

/** A stored notification with its state. */
export type StoredNotification = Notification & {
  state: 'received' | 'waiting' | 'applied' | 'parked' | 'ignored'
  /** Why it is parked, and for how long with this reason; null when it is not parked. */
  reason: ParkedReason | null
  parked_ms: number | null
  received_at: string
}

/** One notification, or undefined. */
export async function findNotification(sql: Sql, id: string): Promise<StoredNotification | undefined> {
  const [row] = await sql<StoredNotification[]>`
    select id, provider, account, event_id, kind, object_id, payload, state, reason, received_at,
      extract(epoch from now() - parked_at)::float8 * 1000 as parked_ms
    from notifications where id = ${id}`
  return row
}

/** How many notifications are parked for each reason, counted up to `most`. */
export async function countParked(
  sql: Sql,
  most: number,
): Promise<{ reason: ParkedReason; count: number }[]> {
  return await sql<{ reason: ParkedReason; count: number }[]>`
    select requested.reason, parked.count from unnest(${[...PARKED_REASONS]}::text[]) as requested(reason)
    cross join lateral (
      select count(*) from (
        select from notifications n where n.parked_at is not null and n.reason = requested.reason limit ${most}) n
    ) parked`
}

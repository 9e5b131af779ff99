// Reads what a notification is about: an event of a provider, or a look that we wrote ourselves.
import type { StoredNotification } from '#domain/notifications/notification.ts'
import { LOOK_KIND, lookOf } from '#domain/reconciliation/looks.ts'
import { EVENT_READERS } from '#providers/configured.ts'
import type { News } from '#providers/news.ts'

/**
 * Null when the notification is about an object that we do not keep; undefined when nobody here reads events of its
 * provider.
 */
export function readNews(notification: StoredNotification): News | null | undefined {
  const { kind, provider, payload } = notification
  if (kind !== LOOK_KIND) return EVENT_READERS[provider]?.(payload)
  const look = lookOf(notification)
  return look === undefined ? null : { ...look, part_of: null, marked: true }
}

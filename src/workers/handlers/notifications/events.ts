// Reads what a notification is about: an event of a provider, or a look that we wrote ourselves.
import type { StoredNotification } from '#domain/notifications/notification.ts'
import { LOOKUP_KIND, lookupOf } from '#domain/reconciliation/lookups.ts'
import { EVENT_READERS } from '#providers/configured.ts'
import type { ProviderEventTarget } from '#providers/events.ts'

/**
 * Null when the notification is about an object that we do not keep; undefined when nobody here reads events of its
 * provider.
 */
export function readProviderEvent(notification: StoredNotification): ProviderEventTarget | null | undefined {
  const { kind, provider, payload } = notification
  if (kind !== LOOKUP_KIND) return EVENT_READERS[provider]?.(payload)
  const lookup = lookupOf(notification)
  return lookup === undefined ? null : { ...lookup, parent_reference: null, has_sluice_ids: true }
}

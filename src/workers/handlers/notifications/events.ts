// Reads the object of a notification: from a provider event, or from our own lookup request.
import { LOOKUP_KIND, type StoredNotification } from '#domain/notifications/notification.ts'
import { lookupOf } from '#domain/reconciliation/lookups.ts'
import { EVENT_READERS } from '#providers/configured.ts'
import type { ProviderEventTarget } from '#providers/events.ts'

/** Null if we do not store objects of this type; undefined if this version reads no events of the provider. */
export function readProviderEvent(notification: StoredNotification): ProviderEventTarget | null | undefined {
  const { kind, provider, payload } = notification
  if (kind !== LOOKUP_KIND) return EVENT_READERS[provider]?.(payload)
  const lookup = lookupOf(notification)
  if (lookup === undefined) return null
  const { resource, reference } = lookup
  return { resource, reference, parent_reference: null, has_sluice_ids: true }
}

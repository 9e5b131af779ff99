// Provider events: notifications of providers as they are stored, and the objects that they are about.
import type { Json } from '#core/db.ts'

/** A provider event as it is stored, without secrets. */
export type ProviderEvent = {
  /** The account at the provider to which the event belongs; empty if the provider has only one account. */
  account: string
  event_id: string
  /** The type of the event, as the provider names it. */
  kind: string
  /** The provider's id of the object, if there is one. */
  object_id: string | null
  payload: Json
  /** Whether an event of this kind can change a stored resource. */
  is_relevant: boolean
  /**
   * For a creation event: the Sluice ids of the created object. Such an event is relevant only if the call was sent
   * again under a new key.
   */
  created_for?: Pick<ReportedStatus, 'tenant_id' | 'root_id'> | null
  /** The state that the event itself reports; null if a lookup is needed. */
  reported: ReportedStatus | null
}

/**
 * The state of an object as an event reports it. It is not applied to the row, only compared: if the row already has
 * this state, the event is redundant and needs no lookup.
 */
export type ReportedStatus = {
  /** The name of the resource. */
  resource: string
  /** The provider's id of the object. */
  reference: string
  /** The status of the resource. */
  status: string
  amount_minor: number
  /** In upper case. */
  currency: string
  /** The amount that belongs to the status: authorized, captured or reversed. Null if there is none. */
  status_amount_minor: number | null
  /** The provider's reason code, if any. */
  reason: string | null
  /** The Sluice ids of the object: its tenant, and the resource to which its jobs are assigned. */
  tenant_id: string | null
  root_id: string | null
}

/**
 * The object that an event is about. The content of the event is not trusted: a lookup finds the state of the object.
 */
export type ProviderEventTarget = {
  /** The name of the resource. */
  resource: string
  /** The provider's id of the object. */
  reference: string
  /** The provider's id of the parent object; null if there is none, or the event does not name it. */
  parent_reference: string | null
  /** Whether the object carries Sluice ids. Every object that Sluice creates has them from the start. */
  has_sluice_ids: boolean
}

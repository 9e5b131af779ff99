// What providers notify us of: their events as they are stored, and what those are about.
import type { Json } from '#core/db.ts'

/** An event of a provider as it is stored; it holds no secrets. */
export type ProviderEvent = {
  /** Which of our accounts there it belongs to; empty when there is only one. */
  account: string
  event_id: string
  /** The provider's word for what happened. */
  kind: string
  /** The provider's id of the object that the event is about, if there is one. */
  object_id: string | null
  payload: Json
  /** False: an event of this kind never changes what we keep. */
  is_relevant: boolean
  /** Of an event that its object was made, which matters only where that was asked for again: our ids that it carries. */
  created_for?: Pick<ReportedStatus, 'tenant_id' | 'root_id'> | null
  /** What the event says outright; null where the provider must be asked. */
  reported: ReportedStatus | null
}

/**
 * What an event says outright of its object. It is never believed; but when our row is so already, it is no news, and
 * the provider need not be asked.
 */
export type ReportedStatus = {
  /** Our noun for the object. */
  subject: string
  /** The provider's id of the object. */
  reference: string
  /** In our words. */
  status: string
  amount_minor: number
  /** In upper case. */
  currency: string
  /** The amount that goes with the status: what is held, or what was captured; null where none does. */
  status_amount_minor: number | null
  /** The provider's word for why it is so, where it gives one. */
  reason: string | null
  /** Our ids that the object carries: the tenant's, and the id of the row under which jobs are filed. */
  tenant_id: string | null
  root_id: string | null
}

/**
 * What an event is about, in our words. Its content is not trusted: the provider is asked for the state of the
 * object.
 */
export type ProviderEventTarget = {
  /** Our noun for the object. */
  subject: string
  /** The provider's id of the object. */
  reference: string
  /** The provider's id of what the object is a part of; null when it is no part, or the event does not say. */
  parent_reference: string | null
  /** Whether the object carries our ids; everything that we create there has them from the start. */
  has_sluice_ids: boolean
}

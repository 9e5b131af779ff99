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
}

/**
 * What an event is about, in our words. Its content is not trusted: the provider is asked for the state of the
 * object.
 */
export type News = {
  /** Our noun for the object. */
  subject: string
  /** The provider's id of the object. */
  reference: string
  /** The provider's id of what the object is a part of; null when it is no part, or the event does not say. */
  part_of: string | null
  /** Whether the object carries our ids; everything that we create there has them from the start. */
  marked: boolean
}

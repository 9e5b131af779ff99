// A provider's lists of objects by creation time: with them, objects are found that no event has reported.
import type { Outcome } from '#core/outcome.ts'
import type { ReportedStatus } from './events.ts'

/** An object as a list shows it. */
export type ListedObject = {
  /** The name of the resource. */
  resource: string
  /** The provider's id of the object. */
  reference: string
  /** The provider's id of the parent object, e.g. the payment of a refund. */
  parent_reference: string | null
  /** The id of the installation that created the object; null if the object has no such mark. */
  installation: string | null
  /** The state of the object; null if only a lookup finds it. */
  reported: ReportedStatus | null
}

/**
 * Objects created from `from_s` to `to_s` (unix seconds, both inclusive). `after`: `last` of the previous page; null
 * for the first page.
 */
type ObjectRange = { from_s: number; to_s: number; after: string | null }
type ObjectPage = {
  objects: ListedObject[]
  /** The id of the last object, after which the next page begins; null if there is no next page. */
  last: string | null
}

/** Reads a page of a list, newest object first. */
type ObjectList = (range: ObjectRange) => Promise<Outcome<ObjectPage>>
/** The lists of a provider, by name. */
export type ObjectLists = Readonly<Record<string, ObjectList>>

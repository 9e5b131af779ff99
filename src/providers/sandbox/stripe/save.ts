// Saves new versions of objects: in the store and in the journal.
import type { Engine } from './engine.ts'
import { putVersion } from './store.ts'
import type { Version } from './versions.ts'

/** Makes `next` the current version of its object, with a new revision, and returns it. */
export function save<T extends Version>({ store, journal }: Engine, next: T): T {
  next.revision = store.revision + 1
  putVersion(store, next)
  journal?.append({ version: next })
  return next
}

// The lists of the providers, and how far they have been read.
import { z } from 'zod'
import type { Json } from '#core/db.ts'
import { areasOf } from '#domain/areas.ts'
import { LISTED_RESULTS } from '#domain/reconciliation/listed.ts'
import type { UnreadSwitches } from '#domain/reconciliation/unread-switches.ts'
import { listsOfProviders, type ProviderList } from '#providers/lists.ts'
import type { WorkerContext } from '../context.ts'

/** The period that each regular run reads. */
const PERIOD_S = 48 * 3600

const counts = z.record(z.enum(LISTED_RESULTS), z.int())
/** The result of a run, and of the pages that a run has read so far. */
export const objectsResult = z.object({
  from_s: z.int(),
  to_s: z.int(),
  /** The numbers of objects by list and result. */
  lists: z.record(z.string(), counts),
})
export type ObjectsResult = z.output<typeof objectsResult>

/** A list, and the object after which its next page begins. */
const listPosition = z.object({ name: z.string(), after: z.string().nullable() })
const objectsRange = z.object({
  /** The lists that are still to be read. */
  lists: z.array(listPosition),
  /** The lists that could not be read. */
  failed: z.array(listPosition.extend({ error: z.string() })),
  result: objectsResult,
})
const objectsPosition = z.object({
  /** The last switch since which the lists are or were read, and the last one for which they have been read. */
  began_for: z.int(),
  read_for: z.int(),
  /** The lists that have not been read completely for the switch `began_for`. */
  unread: z.array(z.string()),
  /** The run of which only some pages have been read. */
  range: objectsRange.nullable(),
})
export type ReadingPosition = z.output<typeof objectsPosition> & { range: z.output<typeof objectsRange> }

/** `is_required`: its area is not switched off. */
export type RequiredList = ProviderList & { is_required: boolean }

/** The lists of the providers of money and identity, in the order in which they are read. */
export function listsToRead(context: WorkerContext): RequiredList[] {
  const { deployed } = areasOf(context.config)
  return listsOfProviders(context).map((list) => ({ ...list, is_required: deployed.includes(list.area) }))
}

/**
 * The position at which a run begins. After a switch of the database, everything since then is read. Lists that could
 * not be read are tried again, until the next regular run is due.
 */
export function beginPosition(
  stored: Json,
  lists: RequiredList[],
  { unread, after_s, every_s }: { unread: UnreadSwitches | undefined; after_s: number; every_s: number },
): ReadingPosition {
  const names = lists.map(({ name }) => name)
  const position = objectsPosition.safeParse(stored).data ?? {
    began_for: 0,
    read_for: 0,
    unread: [],
    range: null,
  }
  const is_behind = unread !== undefined && position.read_for < unread.number
  const restarts = is_behind && position.began_for < unread.number
  const now_s = Math.floor(Date.now() / 1000)
  const continued = restarts ? null : continuedRange(position.range, names, now_s - every_s)
  if (continued !== null) return { ...position, range: continued }
  // After a switch, lookups of objects whose calls are in progress do no harm.
  const to_s = now_s - (is_behind ? 0 : after_s)
  const reads_switch = is_behind && (restarts || position.unread.length > 0)
  const from_s = reads_switch ? Math.min(unread.from_s, to_s - PERIOD_S) : to_s - PERIOD_S
  return {
    ...position,
    ...(restarts && { began_for: unread.number, unread: names }),
    range: {
      lists: names.map((name) => ({ name, after: null })),
      failed: [],
      result: { from_s, to_s, lists: {} },
    },
  }
}

/** The rest of a run that is not complete; null if a new one begins. */
function continuedRange(
  range: z.output<typeof objectsPosition>['range'],
  names: string[],
  retried_since_s: number,
): ReadingPosition['range'] | null {
  if (range === null) return null
  const { result } = range
  const exists = ({ name }: { name: string }) => names.includes(name)
  if (range.lists.length > 0) return { ...range, lists: range.lists.filter(exists) }
  if (result.to_s <= retried_since_s) return null
  return { lists: range.failed.filter(exists), failed: [], result }
}

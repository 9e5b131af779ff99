// The scheduled changes of objects, in order of their time. An object has at most one scheduled change of a kind.

/**
 * What happens to the object. `hold`: the hold of a payment intent expires. `dispute`: a charge is disputed.
 * `dispute_deadline`: a dispute without a response is lost. `payout` and `topup`: the bank sets the next status.
 * `redaction`: a verification session is redacted.
 */
export type ChangeKind = (typeof CHANGE_KINDS)[number]
export const CHANGE_KINDS = ['hold', 'dispute', 'dispute_deadline', 'payout', 'topup', 'redaction'] as const

/** `id`: the object. `due_ms`: unix milliseconds of the engine's clock. */
export type DueChange = { kind: ChangeKind; id: string; due_ms: number }

type Entry = DueChange & {
  /** Changes that are due at the same time happen in the order in which they were scheduled. */
  number: number
}

export type Schedule = {
  byKey: Map<string, Entry>
  /** A binary heap, the earliest change first. Entries that are not in `byKey` are obsolete. */
  heap: Entry[]
  count: number
}

/** The heap is rebuilt if it has this many entries in addition to two for each change. */
const MAX_OBSOLETE = 1000

export function emptySchedule(): Schedule {
  return { byKey: new Map(), heap: [], count: 0 }
}

export function findChange({ byKey }: Schedule, kind: ChangeKind, id: string): DueChange | undefined {
  return byKey.get(keyOf(kind, id))
}

/** Adds a change, or replaces the object's change of the same kind. */
export function putChange(schedule: Schedule, { kind, id, due_ms }: DueChange): void {
  const { byKey } = schedule
  const entry = { kind, id, due_ms, number: schedule.count++ }
  // The map stays in the order of scheduling.
  byKey.delete(keyOf(kind, id))
  byKey.set(keyOf(kind, id), entry)
  push(schedule.heap, entry)
  // A sorted list is a heap.
  if (schedule.heap.length > 2 * byKey.size + MAX_OBSOLETE)
    schedule.heap = [...byKey.values()].sort((a, b) => (isBefore(a, b) ? -1 : 1))
}

/** Removes a change. Returns false if there is none. */
export function removeChange({ byKey }: Schedule, kind: ChangeKind, id: string): boolean {
  return byKey.delete(keyOf(kind, id))
}

/** The change that is due first, or null. */
export function earliestChange({ byKey, heap }: Schedule): DueChange | null {
  for (let first = heap[0]; first !== undefined; first = heap[0]) {
    if (byKey.get(keyOf(first.kind, first.id)) === first) return first
    removeFirst(heap)
  }
  return null
}

function keyOf(kind: ChangeKind, id: string): string {
  return `${kind} ${id}`
}

function isBefore(a: Entry, b: Entry): boolean {
  return a.due_ms === b.due_ms ? a.number < b.number : a.due_ms < b.due_ms
}

function push(heap: Entry[], entry: Entry): void {
  let at = heap.push(entry) - 1
  while (at > 0) {
    const parent = (at - 1) >> 1
    if (!isBefore(entry, heap[parent]!)) break
    heap[at] = heap[parent]!
    at = parent
  }
  heap[at] = entry
}

function removeFirst(heap: Entry[]): void {
  const last = heap.pop()!
  if (heap.length === 0) return
  let at = 0
  for (let child = 1; child < heap.length; child = 2 * at + 1) {
    if (child + 1 < heap.length && isBefore(heap[child + 1]!, heap[child]!)) child++
    if (!isBefore(heap[child]!, last)) break
    heap[at] = heap[child]!
    at = child
  }
  heap[at] = last
}

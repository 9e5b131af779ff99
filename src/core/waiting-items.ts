// The waiting items of a batcher, and the selection of the next run.
import type { TraceSpan } from './tracing/span.ts'

/** The maximum number of items of a statement. */
const MAX_BATCH_ITEMS = 100
/**
 * The maximum number of bytes of a statement if items have a `size`, because every caller waits until the whole
 * statement has run. A larger item runs alone.
 */
export const MAX_BATCH_BYTES = 512 * 1024
/**
 * With this many waiting items the database cannot keep up: further requests are refused before anything is written.
 */
const MAX_WAITING = 5_000
/** The limit on the bytes of all waiting items, if items have a `size`. */
const MAX_WAITING_BYTES = 64 * 1024 * 1024
/** An item that waited for longer is refused: its caller has given up. */
const MAX_WAIT_MS = 10_000

/**
 * The lanes that runs are using (see `ItemOptions.lane`). The map's value for a lane: functions of other batchers, each
 * of which starts the items that wait for the lane.
 */
export type Lanes = Map<string, Set<() => void>>

export type ItemOptions<I> = {
  /** The maximum number of items of a run. Default: `MAX_BATCH_ITEMS`. */
  max_items?: number
  /**
   * Items with a common key never share a run, because a statement cannot write one row twice. An item waits while a
   * run has the same key, because the locks of that run would block it anyway.
   */
  key?: (item: I) => string | string[]
  /**
   * The lane of an item: the row that it locks. Items of one lane share a run, and the next items of the lane wait
   * until that run has ended. So a row that another transaction has locked delays one run, and items of other lanes
   * continue.
   */
  lane?: (item: I) => string
  /** Lanes that are shared with other batchers. Default: lanes of this batcher alone. */
  lanes?: Lanes
  /** The size of an item in bytes. */
  size?: (item: I) => number
}

export type WaitingItem<I, O> = {
  item: I
  at: number
  /** The span to which the item belongs. A run has the items of one span, or items without a span. */
  span: TraceSpan | undefined
  resolve: (value: O) => void
  reject: (error: unknown) => void
}
type BatchRun<I, O> = {
  items: WaitingItem<I, O>[]
  span: TraceSpan | undefined
  keys: string[]
  lanes: Set<string>
}

export type WaitingItems<I, O> = {
  count(): number
  /** False if there is no room for the item. */
  add(item: WaitingItem<I, O>): boolean
  /** Removes and returns the items that have waited too long. */
  removeExpired(): WaitingItem<I, O>[]
  /** Starts the next run. The run's keys and lanes are in use until `endRun`. */
  startRun(): BatchRun<I, O>
  /** Ends a run, and starts the waiting items of its lanes in other batchers. */
  endRun(run: BatchRun<I, O>): void
}

/** `wake` is called when another batcher releases a lane for which items of this batcher wait. */
export function createWaitingItems<I, O>(
  { max_items = MAX_BATCH_ITEMS, key, lane, lanes: running_lanes = new Map(), size }: ItemOptions<I>,
  wake: () => void,
): WaitingItems<I, O> {
  const running_keys = new Set<string>()
  let waiting: WaitingItem<I, O>[] = []
  let waiting_bytes = 0

  function next(): BatchRun<I, O> {
    const run: BatchRun<I, O> = { items: [], span: undefined, keys: [], lanes: new Set() }
    const is_untraced = waiting.every(({ span }) => span === undefined)
    if (key === undefined && lane === undefined && size === undefined && is_untraced)
      return { ...run, items: waiting.splice(0, max_items) }
    const unavailable_keys = new Set(running_keys)
    const still_waiting: WaitingItem<I, O>[] = []
    let bytes = 0
    for (const waiting_item of waiting) {
      const names = key === undefined ? [] : [key(waiting_item.item)].flat()
      const lane_name = lane?.(waiting_item.item)
      const waits_for = lane_name === undefined ? undefined : running_lanes.get(lane_name)
      waits_for?.add(wake)
      const item_bytes = size?.(waiting_item.item) ?? 0
      const has_room =
        run.items.length === 0 ||
        (run.items.length < max_items &&
          bytes + item_bytes <= MAX_BATCH_BYTES &&
          waiting_item.span === run.span)
      if (waits_for === undefined && has_room && !names.some((name) => unavailable_keys.has(name))) {
        run.items.push(waiting_item)
        run.span = waiting_item.span
        bytes += item_bytes
        run.keys.push(...names)
        if (lane_name !== undefined) run.lanes.add(lane_name)
      } else still_waiting.push(waiting_item)
      names.forEach((name) => unavailable_keys.add(name))
    }
    waiting = still_waiting
    waiting_bytes -= bytes
    return run
  }

  return {
    count: () => waiting.length,
    add(item) {
      const bytes = size?.(item.item) ?? 0
      if (waiting.length >= MAX_WAITING || waiting_bytes + bytes > MAX_WAITING_BYTES) return false
      waiting_bytes += bytes
      waiting.push(item)
      return true
    },
    removeExpired() {
      const too_old = performance.now() - MAX_WAIT_MS
      // The oldest items come first.
      const first_fresh = waiting.findIndex(({ at }) => at >= too_old)
      const late = waiting.splice(0, first_fresh === -1 ? waiting.length : first_fresh)
      for (const { item } of late) waiting_bytes -= size?.(item) ?? 0
      return late
    },
    startRun() {
      const run = next()
      run.keys.forEach((name) => running_keys.add(name))
      run.lanes.forEach((name) => running_lanes.set(name, new Set()))
      return run
    },
    endRun({ keys, lanes }) {
      keys.forEach((name) => running_keys.delete(name))
      const others = new Set<() => void>()
      for (const name of lanes) {
        running_lanes.get(name)!.forEach((other) => others.add(other))
        running_lanes.delete(name)
      }
      others.delete(wake)
      others.forEach((other) => other())
    },
  }
}

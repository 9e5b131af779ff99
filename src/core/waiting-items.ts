// The items that wait for a run of a batcher, and which of them may share the next one.

/** A statement carries at most this many items. */
const MAX_BATCH_ITEMS = 100
/** And this many bytes, where items have a `size`: whoever shares it waits for all of it. A larger item goes alone. */
export const MAX_BATCH_BYTES = 512 * 1024
/**
 * With this many items waiting the database cannot keep up: further requests are refused before anything is written.
 */
const MAX_WAITING = 5_000
/** The same for their bytes, where items have a `size`. */
const MAX_WAITING_BYTES = 64 * 1024 * 1024
/** An item that waited for so long is refused instead of carried: nobody waits for it any more. */
const MAX_WAIT_MS = 10_000

/** The lanes that are under way, each with how to begin what waits for it in other batchers. */
export type Lanes = Map<string, Set<() => void>>

export type ItemOptions<I> = {
  /**
   * Items with the same key, or one key in common, never share a run, because a statement cannot write one row twice. They
   * wait for a run with that key to end, because its locks would only block them.
   */
  key?: (item: I) => string | string[]
  /**
   * Items of one lane share runs, but wait for a run with that lane to end: while the row that they all lock is locked by
   * others, it keeps one run busy, and later items of other lanes go on.
   */
  lane?: (item: I) => string
  /** Lanes that it shares with other batchers; by itself it has its own. */
  lanes?: Lanes
  /** The bytes of an item. */
  size?: (item: I) => number
}

export type WaitingItem<I, O> = {
  item: I
  at: number
  resolve: (value: O) => void
  reject: (error: unknown) => void
}
/** What one run carries. */
type BatchRun<I, O> = { items: WaitingItem<I, O>[]; keys: string[]; lanes: Set<string> }

export type WaitingItems<I, O> = {
  count(): number
  /** False if there is no room for it. */
  add(item: WaitingItem<I, O>): boolean
  /** Removes and returns those that have waited too long. */
  removeExpired(): WaitingItem<I, O>[]
  /** Takes the next run. Its keys and lanes are under way until `endRun`. */
  startRun(): BatchRun<I, O>
  /** Ends a run, and begins what waits for its lanes in other batchers. */
  endRun(run: BatchRun<I, O>): void
}

/** `wake`: starts what waits here for a lane of another batcher. */
export function createWaitingItems<I, O>(
  { key, lane, lanes: running_lanes = new Map(), size }: ItemOptions<I>,
  wake: () => void,
): WaitingItems<I, O> {
  const running_keys = new Set<string>()
  let waiting: WaitingItem<I, O>[] = []
  let waiting_bytes = 0

  function next(): BatchRun<I, O> {
    const run: BatchRun<I, O> = { items: [], keys: [], lanes: new Set() }
    if (key === undefined && lane === undefined && size === undefined)
      return { ...run, items: waiting.splice(0, MAX_BATCH_ITEMS) }
    const seen = new Set(running_keys)
    const rest: WaitingItem<I, O>[] = []
    let bytes = 0
    for (const waiting_item of waiting) {
      const names = key === undefined ? [] : [key(waiting_item.item)].flat()
      const lane_name = lane?.(waiting_item.item)
      const waits_for = lane_name === undefined ? undefined : running_lanes.get(lane_name)
      waits_for?.add(wake)
      const item_bytes = size?.(waiting_item.item) ?? 0
      const has_room =
        run.items.length === 0 ||
        (run.items.length < MAX_BATCH_ITEMS && bytes + item_bytes <= MAX_BATCH_BYTES)
      if (waits_for === undefined && has_room && !names.some((name) => seen.has(name))) {
        run.items.push(waiting_item)
        bytes += item_bytes
        run.keys.push(...names)
        if (lane_name !== undefined) run.lanes.add(lane_name)
      } else rest.push(waiting_item)
      names.forEach((name) => seen.add(name))
    }
    waiting = rest
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
      // Those that came first are the first to be late.
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

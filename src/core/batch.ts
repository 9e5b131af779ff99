// Batching: requests that arrive while a statement is running are gathered into the next statement.
import { isOfOneRow, isRolledBack, type Sql } from './db.ts'
import { AppError } from './errors.ts'
import { metrics } from './metrics.ts'

/** A statement carries at most this many items. */
const MOST_ITEMS = 100
/** And this many bytes, where items have a `size`: whoever shares it waits for all of it. A larger item goes alone. */
export const MOST_BYTES = 512 * 1024
/**
 * A run that takes longer than this probably waits for a lock. Items that arrive meanwhile start in a run of their
 * own.
 */
const PATIENCE_MS = 20
/**
 * A run starts no sooner than this after the start of the one before, unless enough items are waiting. Every statement
 * has a price of its own, however few items it carries, and under load the next ones are here in a moment.
 */
const GATHER_MS = 4
/**
 * With this many items waiting, another run starts beside those under way, up to `SIDE_BY_SIDE` runs. With only one run
 * at a time, all callers would wait for the database together and then be busy together.
 */
const WORTH_A_RUN = 24
const SIDE_BY_SIDE = 3
/** The most runs at once, also where those under way take long. */
const MOST_RUNS = 4
/** A connection can go silent without an error. After this long we give up; the statement may or may not have run. */
const DEADLINE_MS = 10_000
/**
 * With this many items waiting the database cannot keep up: further requests are refused before anything is written.
 */
const MAX_WAITING = 5_000
/** The same for their bytes, where items have a `size`. */
const MAX_WAITING_BYTES = 64 * 1024 * 1024
/** An item that waited for so long is refused instead of carried: nobody waits for it any more. */
const MAX_WAIT_MS = 10_000

export type BatchOptions<I> = {
  gather_ms?: number
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

/** The lanes that are under way, each with how to begin what waits for it in other batchers. */
export type Lanes = Map<string, Set<() => void>>

/**
 * Turns a function that handles many items in one statement into one that takes a single item. `run` gets several
 * items and returns one result for each, in the same order. Items that arrive during a run, or within `gather_ms` of its
 * start, are gathered for the next one, which starts beside it when enough are waiting or the run takes long. A single
 * item on an idle system runs at once.
 *
 * When the database refuses a batch because of one item (an integrity violation, a deadlock, a row that a policy
 * forbids), its halves are tried, down to single items, so that no caller fails because of another. `step` names the run
 * in the metrics. Errors: those of `run`; `overloaded` when too many items wait, or one for too long; `timeout` when the database
 * does not answer in time.
 */
export function batcher<I, O>(
  step: string,
  run: (items: I[]) => Promise<O[]>,
  { gather_ms = GATHER_MS, key, lane, lanes: lanes_under_way = new Map(), size }: BatchOptions<I> = {},
): (item: I) => Promise<O> {
  type Waiting = { item: I; at: number; resolve: (value: O) => void; reject: (error: unknown) => void }
  let waiting: Waiting[] = []
  let waiting_bytes = 0
  let running = 0
  let began_at = -Infinity
  const keys_under_way = new Set<string>()
  /** Starts the next run: when enough time was given to gather, or when the one under way takes long. */
  let timer: NodeJS.Timeout | undefined

  function next(): void {
    if (waiting.length === 0 || running >= MOST_RUNS) return
    if (running === 0) stopTimer()
    const wait_ms = running > 0 ? PATIENCE_MS : began_at + gather_ms - performance.now()
    if (wait_ms <= 0 || (running < SIDE_BY_SIDE && waiting.length >= WORTH_A_RUN)) start()
    else timer ??= setTimeout(startIfFree, wait_ms)
  }

  function startIfFree(): void {
    stopTimer()
    if (waiting.length > 0 && running < MOST_RUNS) start()
  }

  function stopTimer(): void {
    clearTimeout(timer)
    timer = undefined
  }

  function start(): void {
    stopTimer()
    refuseLate()
    const { batch, keys, lanes } = take()
    if (batch.length === 0) return
    running += 1
    began_at = performance.now()
    keys.forEach((name) => keys_under_way.add(name))
    lanes.forEach((name) => lanes_under_way.set(name, new Set()))
    void runBatch(batch).finally(() => {
      running -= 1
      keys.forEach((name) => keys_under_way.delete(name))
      const others = new Set<() => void>()
      for (const name of lanes) {
        lanes_under_way.get(name)!.forEach((begin) => others.add(begin))
        lanes_under_way.delete(name)
      }
      // The others first: so no stream of ours keeps them waiting, nor theirs us.
      others.delete(startIfFree)
      others.forEach((begin) => begin())
      next()
    })
    next()
  }

  /** Those that came first are the first to be late. */
  function refuseLate(): void {
    const too_old = performance.now() - MAX_WAIT_MS
    while (waiting[0] !== undefined && waiting[0].at < too_old) {
      const { item, reject } = waiting.shift()!
      waiting_bytes -= size?.(item) ?? 0
      reject(full())
    }
  }

  function full(): AppError {
    return new AppError('overloaded', {
      message: `The database does not keep up: too much waits for the step ${step}; nothing was accepted.`,
    })
  }

  function take(): { batch: Waiting[]; keys: string[]; lanes: Set<string> } {
    const lanes = new Set<string>()
    if (key === undefined && lane === undefined && size === undefined)
      return { batch: waiting.splice(0, MOST_ITEMS), keys: [], lanes }
    const seen = new Set(keys_under_way)
    const batch: Waiting[] = []
    const rest: Waiting[] = []
    const keys: string[] = []
    let bytes = 0
    for (const one of waiting) {
      const names = key === undefined ? [] : [key(one.item)].flat()
      const of_lane = lane?.(one.item)
      const waits_for = of_lane === undefined ? undefined : lanes_under_way.get(of_lane)
      waits_for?.add(startIfFree)
      const of_item = size?.(one.item) ?? 0
      const has_room = batch.length === 0 || (batch.length < MOST_ITEMS && bytes + of_item <= MOST_BYTES)
      if (waits_for === undefined && has_room && !names.some((name) => seen.has(name))) {
        batch.push(one)
        bytes += of_item
        keys.push(...names)
        if (of_lane !== undefined) lanes.add(of_lane)
        waiting_bytes -= of_item
      } else rest.push(one)
      names.forEach((name) => seen.add(name))
    }
    waiting = rest
    return { batch, keys, lanes }
  }

  async function runBatch(batch: Waiting[]): Promise<void> {
    const done = metrics.statement.startTimer({ step })
    try {
      const results = await inTime(run(batch.map(({ item }) => item)))
      done()
      batch.forEach(({ resolve }, index) => resolve(results[index]!))
    } catch (error) {
      if (batch.length === 1 || !(isOfOneRow(error) || isRolledBack(error)))
        return batch.forEach(({ reject }) => reject(error))
      const half = Math.ceil(batch.length / 2)
      await runBatch(batch.slice(0, half))
      await runBatch(batch.slice(half))
    }
  }

  let scheduled = false
  return (item) =>
    new Promise((resolve, reject) => {
      const bytes = size?.(item) ?? 0
      if (waiting.length >= MAX_WAITING || waiting_bytes + bytes > MAX_WAITING_BYTES) return reject(full())
      waiting_bytes += bytes
      waiting.push({ item, at: performance.now(), resolve, reject })
      if (scheduled) return
      scheduled = true
      // In the next round of the event loop all requests that arrived together are in `waiting`.
      setImmediate(() => {
        scheduled = false
        next()
      })
    })
}

/** The same for a statement that takes its connections as an argument: each pool has a batcher of its own. */
export function batcherOf<I, O>(
  step: string,
  run: (sql: Sql, items: I[]) => Promise<O[]>,
  options: BatchOptions<I> = {},
): (sql: Sql, item: I) => Promise<O> {
  const batchers = new WeakMap<Sql, (item: I) => Promise<O>>()
  return (sql, item) => {
    const batched = batchers.get(sql) ?? batcher(step, (items: I[]) => run(sql, items), options)
    batchers.set(sql, batched)
    return batched(item)
  }
}

async function inTime<T>(work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new AppError('timeout')), DEADLINE_MS)
  })
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
  }
}

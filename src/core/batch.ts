// Batching: requests that arrive while a statement runs are gathered into the next statement.
import { isRowError, isRolledBack, type Sql } from './db.ts'
import { AppError } from './errors.ts'
import { metrics } from './metrics.ts'
import { currentSpan, endSpanAfter, startChildSpan, statementSpan, withSpan } from './tracing.ts'
import { createWaitingItems, type ItemOptions, type WaitingItem } from './waiting-items.ts'

/** A run that takes longer than this probably waits for a lock. Items that arrive meanwhile start another run. */
const SLOW_RUN_MS = 20
/**
 * The minimum time between the starts of two runs, unless `EAGER_RUN_ITEMS` are waiting. Every statement has a fixed
 * cost, so under load it is cheaper to wait for the next items.
 */
const GATHER_MS = 4
/**
 * With this many waiting items, another run starts in parallel, up to `MAX_EAGER_RUNS` runs. With a single run, this
 * process would be idle while the database works, and the database while this process works.
 */
const EAGER_RUN_ITEMS = 24
const MAX_EAGER_RUNS = 3
/** The maximum number of parallel runs, even if they are slow. */
const MAX_RUNS = 4
/**
 * A connection can become silent without an error. After this time the caller gets `timeout`; the statement may or
 * may not have run.
 */
const RUN_TIMEOUT_MS = 10_000

export { MAX_BATCH_BYTES, type Lanes } from './waiting-items.ts'
export type BatchOptions<I> = ItemOptions<I> & { gather_ms?: number }

/**
 * Turns a function that handles many items in one statement into a function of a single item. `run` gets several
 * items and returns one result for each, in the same order. Items that arrive during a run, or within `gather_ms` of
 * its start, are gathered for the next run, which starts in parallel if enough items wait or the run is slow. A
 * single item on an idle system runs at once.
 *
 * If the database refuses a batch because of one item (an integrity violation, a deadlock, a row-level policy), both
 * halves are retried, down to single items, so that no caller fails because of another caller's item. `step` names
 * the run in the metrics and in traces. A traced item shares a run only with items of its span, so everything that the
 * statement writes belongs to that trace: see `currentSpan`. Errors: those of `run`; `overloaded` if too many items
 * wait or the item waits too long; `timeout` if the database does not answer in time.
 */
export function createBatcher<I, O>(
  step: string,
  run: (items: I[]) => Promise<O[]>,
  { gather_ms = GATHER_MS, ...options }: BatchOptions<I> = {},
): (item: I) => Promise<O> {
  const waiting = createWaitingItems<I, O>(options, startIfFree)
  let running = 0
  let started_at = -Infinity
  /** Starts the next run when the gathering time has passed or the current run is slow. */
  let timer: NodeJS.Timeout | undefined
  let is_scheduled = false

  function next(): void {
    if (waiting.count() === 0 || running >= MAX_RUNS) return
    if (running === 0) stopTimer()
    const wait_ms = running > 0 ? SLOW_RUN_MS : started_at + gather_ms - performance.now()
    if (wait_ms <= 0 || (running < MAX_EAGER_RUNS && waiting.count() >= EAGER_RUN_ITEMS)) start()
    else timer ??= setTimeout(startIfFree, wait_ms)
  }

  function startIfFree(): void {
    stopTimer()
    if (waiting.count() > 0 && running < MAX_RUNS) start()
  }

  function stopTimer(): void {
    clearTimeout(timer)
    timer = undefined
  }

  function start(): void {
    stopTimer()
    for (const { reject } of waiting.removeExpired()) reject(overloaded(step))
    const batch = waiting.startRun()
    if (batch.items.length === 0) return
    running += 1
    started_at = performance.now()
    // The timers of this batcher may belong to any request: the run belongs to the span of its own items.
    void withSpan(batch.span, () => runOrHalve(step, run, batch.items)).finally(() => {
      running -= 1
      // Batchers that share a lane alternate: the items that wait for the lane in other batchers start before the next
      // run of this batcher.
      waiting.endRun(batch)
      next()
    })
    next()
  }

  function add(item: I): Promise<O> {
    return new Promise((resolve, reject) => {
      const added = { item, at: performance.now(), span: currentSpan(), resolve, reject }
      if (!waiting.add(added)) return reject(overloaded(step))
      if (is_scheduled) return
      is_scheduled = true
      // In the next round of the event loop all requests that arrived together are waiting.
      setImmediate(() => {
        is_scheduled = false
        next()
      })
    })
  }

  const describe = () => ({ name: step, ...statementSpan(step) })
  return (item) => {
    const span = startChildSpan(describe)
    return span === undefined ? add(item) : endSpanAfter(span, add(item))
  }
}

function overloaded(step: string): AppError {
  return new AppError('overloaded', {
    limited_by: 'statements',
    message: `The database is overloaded: too many requests wait for the step ${step}. Nothing was accepted: retry later.`,
  })
}

/** Runs a batch; if it is refused because of one item, runs its halves. Never rejects: each item has its own result. */
async function runOrHalve<I, O>(
  step: string,
  run: (items: I[]) => Promise<O[]>,
  batch: WaitingItem<I, O>[],
): Promise<void> {
  const done = metrics.statement.startTimer({ step })
  try {
    const results = await withDeadline(run(batch.map(({ item }) => item)))
    done()
    batch.forEach(({ resolve }, index) => resolve(results[index]!))
  } catch (error) {
    if (batch.length === 1 || !(isRowError(error) || isRolledBack(error)))
      return batch.forEach(({ reject }) => reject(error))
    const half = Math.ceil(batch.length / 2)
    await runOrHalve(step, run, batch.slice(0, half))
    await runOrHalve(step, run, batch.slice(half))
  }
}

/** Like `createBatcher`, for a `run` that gets the pool as an argument. Items of different pools never share a run. */
export function createBatcherPerPool<I, O>(
  step: string,
  run: (sql: Sql, items: I[]) => Promise<O[]>,
  options: BatchOptions<I> = {},
): (sql: Sql, item: I) => Promise<O> {
  const batchers = new WeakMap<Sql, (item: I) => Promise<O>>()
  return (sql, item) => {
    const batched = batchers.get(sql) ?? createBatcher(step, (items: I[]) => run(sql, items), options)
    batchers.set(sql, batched)
    return batched(item)
  }
}

async function withDeadline<T>(work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const timed_out = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new AppError('timeout')), RUN_TIMEOUT_MS)
  })
  try {
    return await Promise.race([work, timed_out])
  } finally {
    clearTimeout(timer)
  }
}

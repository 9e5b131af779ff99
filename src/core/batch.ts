// Natural batching: what arrives while one statement is on its way travels in the next.
import { databaseCode } from './db.ts'
import { AppError } from './errors.ts'
import { metrics } from './metrics.ts'

/** A run that takes longer waits for somebody's lock: the others need not. */
const PATIENCE_MS = 20
/**
 * So many are worth a run beside those under way, up to so many runs: in one run at a time all callers would move in step
 * and leave the other stages idle.
 */
const WORTH_A_RUN = 8
const SIDE_BY_SIDE = 3
/** A connection can go silent without failing; what was asked on it then may or may not have happened. */
const DEADLINE_MS = 10_000
/** The database cannot keep up: what comes on top is refused before it is accepted. */
const MAX_WAITING = 5_000

/**
 * Turns a set-based step into one that takes a single item. `run` gets 1..`max` items and answers one result each, in
 * their order. What arrives while a run is under way travels in the next, which begins beside it when enough has gathered or
 * the run takes long, up to `concurrency`. An item alone is run at once, so an idle system pays nothing.
 * When the database refuses a batch because of one item (an integrity violation, a deadlock), each item is tried by
 * itself, so that no caller fails for a neighbour's sake. Items of the same `key` (one of several, if it answers a list) never
 * share a run, because a statement writes no row twice, and wait for a run with that key that is under way, because it would
 * only lock them out. `step` names the run in the metrics. Errors: those of `run`; `overloaded` when too much waits;
 * `database_unavailable` when no answer comes.
 */
export function batcher<I, O>(
  step: string,
  run: (items: I[]) => Promise<O[]>,
  {
    max = 100,
    concurrency = 4,
    key,
  }: { max?: number; concurrency?: number; key?: (item: I) => string | string[] } = {},
): (item: I) => Promise<O> {
  type Waiting = { item: I; resolve: (value: O) => void; reject: (error: unknown) => void }
  let waiting: Waiting[] = []
  let running = 0
  const underWay = new Set<string>()
  let impatient: NodeJS.Timeout | undefined

  function next(): void {
    if (waiting.length === 0 || running >= concurrency) return
    if (running === 0 || (running < SIDE_BY_SIDE && waiting.length >= WORTH_A_RUN)) start()
    else
      impatient ??= setTimeout(() => {
        impatient = undefined
        if (waiting.length > 0 && running < concurrency) start()
      }, PATIENCE_MS)
  }

  function start(): void {
    clearTimeout(impatient)
    impatient = undefined
    const { batch, keys } = take()
    if (batch.length === 0) return
    running += 1
    keys.forEach((name) => underWay.add(name))
    void carry(batch).finally(() => {
      running -= 1
      keys.forEach((name) => underWay.delete(name))
      next()
    })
    next()
  }

  function take(): { batch: Waiting[]; keys: string[] } {
    if (key === undefined) return { batch: waiting.splice(0, max), keys: [] }
    const seen = new Set(underWay)
    const batch: Waiting[] = []
    const rest: Waiting[] = []
    const keys: string[] = []
    for (const one of waiting) {
      const names = [key(one.item)].flat()
      if (batch.length < max && !names.some((name) => seen.has(name))) {
        batch.push(one)
        keys.push(...names)
      } else rest.push(one)
      names.forEach((name) => seen.add(name))
    }
    waiting = rest
    return { batch, keys }
  }

  async function carry(batch: Waiting[]): Promise<void> {
    const done = metrics.statement.startTimer({ step })
    try {
      const results = await inTime(run(batch.map(({ item }) => item)))
      done()
      batch.forEach(({ resolve }, index) => resolve(results[index]!))
    } catch (error) {
      if (batch.length === 1 || !concernsOneItem(error)) batch.forEach(({ reject }) => reject(error))
      else for (const one of batch) await carry([one])
    }
  }

  let scheduled = false
  return (item) =>
    new Promise((resolve, reject) => {
      if (waiting.length >= MAX_WAITING) return reject(new AppError('overloaded'))
      waiting.push({ item, resolve, reject })
      if (scheduled) return
      scheduled = true
      // A turn of the event loop later, all requests that one read of the sockets brought are here.
      setImmediate(() => {
        scheduled = false
        next()
      })
    })
}

function concernsOneItem(error: unknown): boolean {
  return /^(23|22|40)/.test(databaseCode(error) ?? '')
}

async function inTime<T>(work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new AppError('database_unavailable')), DEADLINE_MS)
  })
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
  }
}

// Looks up keys from addresses that have exhausted their budget of invalid keys: few statements, each with many keys,
// round robin over the addresses.
import { setTimeout as sleep } from 'node:timers/promises'

/** The pause between two statements. */
const INTERVAL_MS = 100
const BATCH_SIZE = 64
/**
 * With these limits, each waiting key is looked up within a second, and all waiting keys of one address fit into two
 * statements.
 */
const MAX_WAITING_KEYS = 512
const MAX_WAITING_PER_ADDRESS = 128

type WaitingKey<Found> = { secret: string; resolve: (found: Found) => void; reject: (error: unknown) => void }

/**
 * Creates a function that looks up a key for an address. `lookUp` returns one result for each key, in order; if it
 * throws, the promises of its keys reject with its error. Each address has a queue of waiting keys. If too many keys
 * wait, a random key of the longest queue is rejected with the error of `refuse`: rejecting the newest key would favour
 * the addresses that send most.
 */
export function createSlowLane<Found>(
  lookUp: (secrets: string[]) => Promise<Found[]>,
  refuse: () => Error,
): (ip: string, secret: string) => Promise<Found> {
  const queues = new Map<string, WaitingKey<Found>[]>()
  let waiting = 0
  let serving = false

  /** Removes up to `BATCH_SIZE` keys from the queues, round robin: one key from each queue at a time. */
  function nextBatch(): WaitingKey<Found>[] {
    const batch: WaitingKey<Found>[] = []
    while (batch.length < BATCH_SIZE && waiting > 0) {
      const [[ip, queue] = ['', []]] = queues
      queues.delete(ip)
      batch.push(...queue.splice(0, 1))
      waiting -= 1
      if (queue.length > 0) queues.set(ip, queue)
    }
    return batch
  }

  async function serve(): Promise<void> {
    if (serving) return
    serving = true
    while (waiting > 0) {
      const batch = nextBatch()
      await lookUp(batch.map(({ secret }) => secret)).then(
        (found) => batch.forEach(({ resolve }, index) => resolve(found[index]!)),
        (error: unknown) => batch.forEach(({ reject }) => reject(error)),
      )
      await sleep(INTERVAL_MS, undefined, { ref: false })
    }
    serving = false
  }

  function evictOverLimit(): void {
    const longest = Math.max(...Array.from(queues.values(), ({ length }) => length))
    if (waiting <= MAX_WAITING_KEYS && longest <= MAX_WAITING_PER_ADDRESS) return
    const [ip, queue] = randomItem([...queues].filter(([, { length }]) => length === longest))
    const evicted = randomItem(queue)
    queue.splice(queue.indexOf(evicted), 1)
    if (queue.length === 0) queues.delete(ip)
    waiting -= 1
    evicted.reject(refuse())
  }

  return async (ip, secret) =>
    await new Promise<Found>((resolve, reject) => {
      const queue = queues.get(ip) ?? []
      queue.push({ secret, resolve, reject })
      queues.set(ip, queue)
      waiting += 1
      evictOverLimit()
      void serve()
    })
}

function randomItem<Item>(items: Item[]): Item {
  return items[Math.floor(Math.random() * items.length)]!
}

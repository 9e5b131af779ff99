// The producer: sends bells and states to the backend in batches. Callers do not wait for it.
import type { Watch } from './away.ts'
import type { Backend } from './backend.ts'
import { type Bell, type PublishedState, encodeStates } from './bells.ts'
import { within } from './late.ts'
import { max_batch, max_waiting } from './settings.ts'

export type Producer = {
  ring(bells: Bell[]): void
  publish(states: PublishedState[]): void
  /** Drops everything that waits to be sent, because the backend is away. */
  forget(): void
  /** Sends what waits, for a limited time. */
  close(): Promise<void>
}

/** `drop` is called with the number of bells that could not be sent. Nothing here throws or rejects. */
export function createProducer(backend: Backend, watch: Watch, drop: (bells: number) => void): Producer {
  const bell_carriers = new Map<string, Carrier<Bell>>()
  const state_carrier = createCarrier<PublishedState>({
    carry: (states) => backend.publish(encodeStates(states, backend.max_message_bytes)),
    limit_ms: backend.limit_ms,
    // Waiters poll the database, so a lost message only costs time.
    lose: () => {},
    doubt: watch.doubt,
  })

  function carrierOf(queue: string): Carrier<Bell> {
    let carrier = bell_carriers.get(queue)
    if (!carrier) {
      carrier = createCarrier<Bell>({
        carry: (bells) => backend.addBells(queue, bells),
        limit_ms: backend.limit_ms,
        lose: drop,
        doubt: watch.doubt,
      })
      bell_carriers.set(queue, carrier)
    }
    return carrier
  }

  return {
    ring(bells) {
      if (watch.away()) drop(bells.length)
      else for (const bell of bells) carrierOf(bell.queue).add(bell)
    },
    publish(states) {
      if (!watch.away()) for (const each of states) state_carrier.add(each)
    },
    forget() {
      for (const carrier of [...bell_carriers.values(), state_carrier]) carrier.forget()
    },
    async close() {
      await Promise.all([...bell_carriers.values(), state_carrier].map((carrier) => carrier.close()))
    },
  }
}

type Carrier<T> = { add(item: T): void; forget(): void; close(): Promise<void> }

/** Gathers items that arrive in one turn of the event loop, or during a batch, and sends them as the next batch. */
function createCarrier<T>(options: {
  carry: (items: T[]) => Promise<void>
  limit_ms: number
  lose: (items: number) => void
  doubt: () => void
}): Carrier<T> {
  let waiting: T[] = []
  let under_way: Promise<void> | null = null

  async function carryAll(): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve))
    while (waiting.length > 0) {
      const batch = waiting.splice(0, max_batch)
      try {
        await within(options.carry(batch), options.limit_ms)
      } catch {
        options.lose(batch.length)
        options.doubt()
      }
    }
    under_way = null
  }

  return {
    add(item) {
      if (waiting.length >= max_waiting) return options.lose(1)
      waiting.push(item)
      under_way ??= carryAll()
    },
    forget() {
      if (waiting.length > 0) options.lose(waiting.length)
      waiting = []
    },
    async close() {
      await within(under_way ?? Promise.resolve(), 2 * options.limit_ms).catch(() => {})
    },
  }
}

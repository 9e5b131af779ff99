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
  const bell_senders = new Map<string, Sender<Bell>>()
  const state_sender = createSender<PublishedState>({
    send: (states) => backend.publish(encodeStates(states, backend.max_message_bytes)),
    limit_ms: backend.limit_ms,
    // Waiters poll the database, so a lost message only costs time.
    lost: () => {},
    doubt: watch.doubt,
  })

  function senderOf(queue: string): Sender<Bell> {
    let sender = bell_senders.get(queue)
    if (!sender) {
      sender = createSender<Bell>({
        send: (bells) => backend.addBells(queue, bells),
        limit_ms: backend.limit_ms,
        lost: drop,
        doubt: watch.doubt,
      })
      bell_senders.set(queue, sender)
    }
    return sender
  }

  return {
    ring(bells) {
      watch.used()
      if (watch.away()) drop(bells.length)
      else for (const bell of bells) senderOf(bell.queue).add(bell)
    },
    publish(states) {
      watch.used()
      if (!watch.away()) for (const each of states) state_sender.add(each)
    },
    forget() {
      for (const sender of [...bell_senders.values(), state_sender]) sender.forget()
    },
    async close() {
      await Promise.all([...bell_senders.values(), state_sender].map((sender) => sender.close()))
    },
  }
}

type Sender<T> = { add(item: T): void; forget(): void; close(): Promise<void> }

/** Sends items in batches: those that arrive in one round of the event loop, or while a batch is sent, are the next batch. */
function createSender<T>(options: {
  send: (items: T[]) => Promise<void>
  limit_ms: number
  lost: (items: number) => void
  doubt: () => void
}): Sender<T> {
  let waiting: T[] = []
  let under_way: Promise<void> | null = null

  async function sendAll(): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve))
    while (waiting.length > 0) {
      const batch = waiting.splice(0, max_batch)
      try {
        await within(options.send(batch), options.limit_ms)
      } catch {
        options.lost(batch.length)
        options.doubt()
      }
    }
    under_way = null
  }

  return {
    add(item) {
      if (waiting.length >= max_waiting) return options.lost(1)
      waiting.push(item)
      under_way ??= sendAll()
    },
    forget() {
      if (waiting.length > 0) options.lost(waiting.length)
      waiting = []
    },
    async close() {
      await within(under_way ?? Promise.resolve(), 2 * options.limit_ms).catch(() => {})
    },
  }
}

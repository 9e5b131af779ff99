// The producer: sends wake-ups and states to the backend in batches. Callers do not wait for the backend.
import type { BackendWatch } from './away.ts'
import type { Backend } from './backend.ts'
import { type WakeUp, type PublishedState, encodeStates } from './wakeup-messages.ts'
import { withTimeout } from '#core/timeout.ts'
import { messagingAttributes, startChildSpan } from '#core/tracing.ts'
import type { TraceSpan } from '#core/tracing/span.ts'
import { max_batch, max_waiting } from './settings.ts'

export type Producer = {
  wake(wakeups: WakeUp[]): void
  publish(states: PublishedState[]): void
  /** Discards all buffered messages, because the backend is down. */
  discard(): void
  /** Sends the buffered messages, with a time limit. */
  close(): Promise<void>
}

/** `drop` is called with the number of wake-ups that could not be sent. Nothing here throws or rejects. */
export function createProducer(
  backend: Backend,
  watch: BackendWatch,
  drop: (wakeups: number) => void,
): Producer {
  const wakeup_senders = new Map<string, Sender<TracedWakeUp>>()
  const state_sender = createSender<PublishedState>({
    send: (states) => backend.publish(encodeStates(states, backend.max_message_bytes)),
    limit_ms: backend.limit_ms,
    // Waiting requests poll the database, so a lost message only costs time.
    onLost: () => {},
    probeNow: watch.probeNow,
  })

  function senderOf(queue: string): Sender<TracedWakeUp> {
    let sender = wakeup_senders.get(queue)
    if (!sender) {
      sender = createSender<TracedWakeUp>({
        async send(wakeups) {
          await backend.addWakeUps(queue, wakeups)
          for (const { span } of wakeups) span?.end()
        },
        limit_ms: backend.limit_ms,
        onLost: drop,
        probeNow: watch.probeNow,
      })
      wakeup_senders.set(queue, sender)
    }
    return sender
  }

  return {
    wake(wakeups) {
      watch.markUsed()
      if (watch.isDown()) drop(wakeups.length)
      else
        for (const wakeup of wakeups) senderOf(wakeup.queue).add({ ...wakeup, span: startSendSpan(wakeup) })
    },
    publish(states) {
      watch.markUsed()
      if (!watch.isDown()) for (const each of states) state_sender.add(each)
    },
    discard() {
      for (const sender of [...wakeup_senders.values(), state_sender]) sender.discard()
    },
    async close() {
      await Promise.all([...wakeup_senders.values(), state_sender].map((sender) => sender.close()))
    },
  }
}

/** A wake-up with the span of its sending. The span of a dropped wake-up never ends, so it is not exported. */
type TracedWakeUp = WakeUp & { span: TraceSpan | undefined }

function startSendSpan(wakeup: WakeUp): TraceSpan | undefined {
  return startChildSpan(() => ({
    name: `send ${wakeup.queue}`,
    kind: 'producer',
    attributes: messagingAttributes('send', wakeup),
  }))
}

type Sender<T> = { add(item: T): void; discard(): void; close(): Promise<void> }

/**
 * Sends items in batches: items that arrive in one round of the event loop, or while a batch is sent, form the next
 * batch.
 */
function createSender<T>(options: {
  send: (items: T[]) => Promise<void>
  limit_ms: number
  onLost: (items: number) => void
  probeNow: () => void
}): Sender<T> {
  let waiting: T[] = []
  let sending: Promise<void> | null = null

  async function sendAll(): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve))
    while (waiting.length > 0) {
      const batch = waiting.splice(0, max_batch)
      try {
        await withTimeout(options.send(batch), options.limit_ms)
      } catch {
        options.onLost(batch.length)
        options.probeNow()
      }
    }
    sending = null
  }

  return {
    add(item) {
      if (waiting.length >= max_waiting) return options.onLost(1)
      waiting.push(item)
      sending ??= sendAll()
    },
    discard() {
      if (waiting.length > 0) options.onLost(waiting.length)
      waiting = []
    },
    async close() {
      await withTimeout(sending ?? Promise.resolve(), 2 * options.limit_ms).catch(() => {})
    },
  }
}

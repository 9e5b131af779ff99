// The producer: sends wake-ups and states to the backend in batches. Callers do not wait for the backend.
import type { BackendWatch } from './away.ts'
import type { AcceptedRequest, AcceptedStream } from './accepted.ts'
import type { Backend } from './backend.ts'
import { type WakeUp, type PublishedState, encodeStates } from './wakeup-messages.ts'
import { withTimeout } from '#core/timeout.ts'
import { messagingAttributes, startChildSpan } from '#core/tracing.ts'
import type { TraceSpan } from '#core/tracing/span.ts'
import { setTimeout as sleep } from 'node:timers/promises'
import { accepted_gather_ms, accepted_limit_ms, close_limit_ms, max_batch, max_waiting } from './settings.ts'

export type Producer = {
  wake(wakeups: WakeUp[]): void
  publish(states: PublishedState[]): void
  /** Records an accepted request in the stream, if the backend has one. */
  record(request: AcceptedRequest): void
  /**
   * Discards the buffered wake-ups and states, because the backend is down. Accepted requests are still recorded if it
   * answers soon.
   */
  discard(): void
  /** Records that the connection was lost: a server that restarts may have lost what it received last. */
  disconnected(): void
  /** Sends the buffered messages, with a time limit. */
  close(): Promise<void>
}

/**
 * `drop` is called with the number of wake-ups that could not be sent, and `miss` with that of requests that were not
 * recorded. Nothing here throws or rejects.
 */
export function createProducer(
  backend: Backend,
  watch: BackendWatch,
  { drop, miss }: { drop: (wakeups: number) => void; miss: (requests: number) => void },
): Producer {
  const wakeup_senders = new Map<string, Sender<TracedWakeUp>>()
  const state_sender = createSender<PublishedState>({
    send: (states) => backend.publish(encodeStates(states, backend.max_message_bytes)),
    limit_ms: backend.limit_ms,
    // Waiting requests poll the database, so a lost message only costs time.
    onLost: () => {},
    probeNow: watch.probeNow,
  })

  const { accepted } = backend
  const recorder = accepted === null ? null : createRecorder(accepted, watch, miss)

  const senders = () => [...wakeup_senders.values(), state_sender]

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
    record: (request) => recorder?.add(request),
    discard() {
      for (const sender of senders()) sender.discard()
    },
    disconnected: () => recorder?.disconnected(),
    async close() {
      await Promise.all([...senders(), ...(recorder === null ? [] : [recorder])].map((each) => each.close()))
    },
  }
}

/** Sends accepted requests to the stream, which also shows if requests before them were missed. */
function createRecorder(
  accepted: AcceptedStream,
  watch: BackendWatch,
  miss: (requests: number) => void,
): Sender<AcceptedRequest> & { disconnected(): void } {
  let is_incomplete = false
  const sender = createSender<AcceptedRequest>({
    async send(requests) {
      const was_incomplete = is_incomplete
      is_incomplete = false
      await accepted.append(requests, was_incomplete)
    },
    limit_ms: accepted_limit_ms,
    onLost(requests) {
      is_incomplete = true
      miss(requests)
    },
    probeNow: watch.probeNow,
    gather_ms: accepted_gather_ms,
  })
  return {
    ...sender,
    add(request) {
      watch.markUsed()
      sender.add(request)
    },
    disconnected() {
      is_incomplete = true
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
  /** How long each batch is gathered, unless it is full. Default: one round of the event loop for the first. */
  gather_ms?: number
}): Sender<T> {
  let waiting: T[] = []
  let sending: Promise<void> | null = null

  async function sendAll(): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve))
    while (waiting.length > 0) {
      if (options.gather_ms !== undefined && waiting.length < max_batch) await sleep(options.gather_ms)
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
      const limit_ms = Math.min(2 * options.limit_ms, close_limit_ms)
      await withTimeout(sending ?? Promise.resolve(), limit_ms).catch(() => {})
    },
  }
}

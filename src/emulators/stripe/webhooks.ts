// Sends events to the webhook endpoint: signed, in the background, retried until the answer is 2xx.
import { createHmac } from 'node:crypto'
import type { StoredEvent } from '#providers/sandbox/stripe/event-log.ts'
import { createPoster } from '../shared/post.ts'

const CONCURRENCY = 32
const DEADLINE_MS = 10_000
const INITIAL_RETRY_DELAY_MS = 250
const MAX_RETRY_DELAY_MS = 10_000
const ATTEMPTS = 40
/** Maximum delay of shuffled events. */
const SHUFFLE_MS = 100

export type Webhooks = {
  /** Whether the provider makes no event for the change that happens now. */
  omitsEvent(): boolean
  isSubscribed(type: string): boolean
  send(event: StoredEvent): void
  /** Sends at once, even while paused. Resolves to the status, or to 0 if there is no answer. */
  sendNow(event: StoredEvent): Promise<number>
  change(settings: Partial<WebhookSettings>): void
  describe(): WebhookSettings & {
    url: string
    delivered: number
    /** Number of deliveries that are never sent. */
    dropped: number
    /** Number of deliveries that were delayed, including those that have been sent since. */
    delayed: number
    failed_attempts: number
    given_up: number
    /** Number of deliveries that wait for a connection or for their next attempt. */
    waiting: number
    sending: number
  }
  close(): void
}

type WebhookSettings = {
  paused: boolean
  duplicate_percent: number
  /** Percentage of events that are never sent. */
  drop_percent: number
  /** Percentage of changes without an event: there is none to send, and none in the list. */
  omit_percent: number
  /** Percentage of events that are delayed by up to `late_ms`. */
  late_percent: number
  late_ms: number
  shuffle: boolean
}

export type WebhookOptions = {
  url: string
  secret: string
  /** Types to send; null: all. */
  types: string[] | null
  render: (event: StoredEvent) => unknown
  onDelivered(event: StoredEvent): void
}

/** The value of `Stripe-Signature`; `timestamp` in unix seconds. */
export function signStripe(
  payload: string,
  secret: string,
  timestamp = Math.floor(Date.now() / 1000),
): string {
  return `t=${timestamp},v1=${createHmac('sha256', secret).update(`${timestamp}.${payload}`).digest('hex')}`
}

const SETTINGS: WebhookSettings = {
  paused: false,
  duplicate_percent: 0,
  drop_percent: 0,
  omit_percent: 0,
  late_percent: 0,
  late_ms: 60_000,
  shuffle: false,
}

type Delivery = { event: StoredEvent; attempt: number; isDuplicate?: true }

/** Starts a sender with default settings: in order, without duplicates, losses or delays. */
export function startWebhookSender(options: WebhookOptions): Webhooks {
  const { post, close } = createSignedPost(options)
  const settings = { ...SETTINGS }
  const counts = { delivered: 0, dropped: 0, delayed: 0, failed_attempts: 0, given_up: 0 }
  const backlog = createBacklog(settings, attempt)

  async function attempt(delivery: Delivery): Promise<void> {
    const status = await post(delivery.event)
    if (status >= 200 && status < 300) {
      delivered(delivery.event)
      if (!delivery.isDuplicate && Math.random() * 100 < settings.duplicate_percent) {
        backlog.schedule({ event: delivery.event, attempt: 1, isDuplicate: true }, Math.random() * SHUFFLE_MS)
      }
      return
    }
    counts.failed_attempts++
    if (delivery.attempt >= ATTEMPTS) counts.given_up++
    else
      backlog.schedule(
        { ...delivery, attempt: delivery.attempt + 1 },
        Math.min(INITIAL_RETRY_DELAY_MS * 2 ** (delivery.attempt - 1), MAX_RETRY_DELAY_MS),
      )
  }

  function delivered(event: StoredEvent): void {
    counts.delivered++
    options.onDelivered(event)
  }

  return {
    omitsEvent: () => Math.random() * 100 < settings.omit_percent,
    isSubscribed: (type) => options.types === null || options.types.includes(type),
    send(event) {
      if (Math.random() * 100 < settings.drop_percent) return void counts.dropped++
      if (Math.random() * 100 < settings.late_percent) {
        counts.delayed++
        return backlog.schedule({ event, attempt: 1 }, Math.random() * settings.late_ms)
      }
      if (settings.shuffle) return backlog.schedule({ event, attempt: 1 }, Math.random() * SHUFFLE_MS)
      backlog.push({ event, attempt: 1 })
      // The event is sent after the answer to the request that caused it.
      setImmediate(backlog.pump)
    },
    async sendNow(event) {
      const status = await post(event)
      if (status >= 200 && status < 300) delivered(event)
      return status
    },
    change(changes) {
      Object.assign(settings, changes)
      backlog.pump()
    },
    describe: () => ({ url: options.url, ...settings, ...counts, ...backlog.describe() }),
    close() {
      backlog.close()
      close()
    },
  }
}

/** Creates a function that posts an event once and resolves to the status, or to 0 if there is no answer. */
function createSignedPost({ url, secret, render }: WebhookOptions) {
  const poster = createPoster({ sockets: CONCURRENCY, deadline_ms: DEADLINE_MS })
  const to = new URL(url)

  async function post(event: StoredEvent): Promise<number> {
    const payload = JSON.stringify(render(event))
    const headers = {
      'content-type': 'application/json; charset=utf-8',
      'user-agent': 'Stripe/1.0 (+https://stripe.com/docs/webhooks)',
      'stripe-signature': signStripe(payload, secret),
    }
    return (await poster.post(to, headers, payload)).status
  }

  return { post, close: () => poster.close() }
}

/** Creates the queue of waiting deliveries. It sends at most `CONCURRENCY` at a time, and none while paused. */
function createBacklog(
  settings: Pick<WebhookSettings, 'paused' | 'shuffle'>,
  attempt: (delivery: Delivery) => Promise<void>,
) {
  const timers = new Set<NodeJS.Timeout>()
  const waiting = createDeliveryQueue()
  let sending = 0
  let closed = false

  function pump(): void {
    if (closed) return
    while (!settings.paused && sending < CONCURRENCY && waiting.size() > 0) {
      sending++
      void attempt(waiting.take(settings.shuffle)).finally(() => {
        sending--
        pump()
      })
    }
  }

  function schedule(delivery: Delivery, after_ms: number): void {
    if (closed) return
    const timer = setTimeout(() => {
      timers.delete(timer)
      waiting.push(delivery)
      pump()
    }, after_ms)
    timers.add(timer)
  }

  return {
    pump,
    schedule,
    push: waiting.push,
    describe: () => ({ waiting: waiting.size() + timers.size, sending }),
    close() {
      closed = true
      for (const timer of timers) clearTimeout(timer)
    },
  }
}

/** A queue of deliveries. */
function createDeliveryQueue() {
  let deliveries: Delivery[] = []
  let head = 0
  return {
    size: () => deliveries.length - head,
    push: (delivery: Delivery) => void deliveries.push(delivery),
    /** The first delivery, or with `shuffle` a random one. */
    take(shuffle: boolean): Delivery {
      if (shuffle) {
        const other = head + Math.floor(Math.random() * (deliveries.length - head))
        const first = deliveries[head]!
        deliveries[head] = deliveries[other]!
        deliveries[other] = first
      }
      const delivery = deliveries[head++]!
      if (head > 1000 && head * 2 > deliveries.length) {
        deliveries = deliveries.slice(head)
        head = 0
      }
      return delivery
    },
  }
}

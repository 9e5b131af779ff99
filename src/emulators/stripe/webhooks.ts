// Sending events to the webhook endpoint: signed, in the background, again until it says 2xx.
import { createHmac } from 'node:crypto'
import { Agent, request as httpRequest } from 'node:http'
import { Agent as SecureAgent, request as httpsRequest } from 'node:https'
import type { StoredEvent } from './event-log.ts'

const CONCURRENCY = 32
const DEADLINE_MS = 10_000
const FIRST_RETRY_MS = 250
const LONGEST_RETRY_MS = 10_000
const ATTEMPTS = 40
/** How far shuffled events stray. */
const SHUFFLE_MS = 100

export type Webhooks = {
  wants(type: string): boolean
  send(event: StoredEvent): void
  /** Once more and at once, paused or not; resolves to the status, 0 without an answer. */
  sendNow(event: StoredEvent): Promise<number>
  change(settings: Partial<WebhookSettings>): void
  describe(): WebhookSettings & {
    url: string
    delivered: number
    /** Never sent, and never will be. */
    dropped: number
    /** Sent late, or going to be. */
    delayed: number
    failed_attempts: number
    given_up: number
    /** For their turn, or for their next attempt. */
    waiting: number
    sending: number
  }
  close(): void
}

type WebhookSettings = {
  paused: boolean
  duplicate_percent: number
  /** So many of them are lost before they are sent. */
  drop_percent: number
  /** So many of them are sent late, by up to `late_ms`. */
  late_percent: number
  late_ms: number
  shuffle: boolean
}

export type WebhookOptions = {
  url: string
  secret: string
  /** Types to send; null: all. */
  types: string[] | null
  render(event: StoredEvent): unknown
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

type Delivery = { event: StoredEvent; attempt: number; isDuplicate?: true }

export function startWebhookSender(options: WebhookOptions): Webhooks {
  const url = new URL(options.url)
  const isSecure = url.protocol === 'https:'
  const agent = isSecure
    ? new SecureAgent({ keepAlive: true, maxSockets: CONCURRENCY })
    : new Agent({ keepAlive: true, maxSockets: CONCURRENCY })
  const settings: WebhookSettings = {
    paused: false,
    duplicate_percent: 0,
    drop_percent: 0,
    late_percent: 0,
    late_ms: 60_000,
    shuffle: false,
  }
  const counts = { delivered: 0, dropped: 0, delayed: 0, failed_attempts: 0, given_up: 0 }
  const timers = new Set<NodeJS.Timeout>()
  let waiting: Delivery[] = []
  let head = 0
  let sending = 0
  let closed = false

  function pump(): void {
    if (closed) return
    while (!settings.paused && sending < CONCURRENCY && head < waiting.length) {
      sending++
      void attempt(take()).finally(() => {
        sending--
        pump()
      })
    }
  }

  function take(): Delivery {
    if (settings.shuffle) {
      const other = head + Math.floor(Math.random() * (waiting.length - head))
      const first = waiting[head]!
      waiting[head] = waiting[other]!
      waiting[other] = first
    }
    const delivery = waiting[head++]!
    if (head > 1000 && head * 2 > waiting.length) {
      waiting = waiting.slice(head)
      head = 0
    }
    return delivery
  }

  async function attempt(delivery: Delivery): Promise<void> {
    const status = await post(delivery.event)
    if (status >= 200 && status < 300) {
      delivered(delivery.event)
      if (!delivery.isDuplicate && Math.random() * 100 < settings.duplicate_percent) {
        later({ event: delivery.event, attempt: 1, isDuplicate: true }, Math.random() * SHUFFLE_MS)
      }
      return
    }
    counts.failed_attempts++
    if (delivery.attempt >= ATTEMPTS) counts.given_up++
    else
      later(
        { ...delivery, attempt: delivery.attempt + 1 },
        Math.min(FIRST_RETRY_MS * 2 ** (delivery.attempt - 1), LONGEST_RETRY_MS),
      )
  }

  function delivered(event: StoredEvent): void {
    counts.delivered++
    if (!event.pending) return
    event.pending = false
    options.onDelivered(event)
  }

  function later(delivery: Delivery, after_ms: number): void {
    if (closed) return
    const timer = setTimeout(() => {
      timers.delete(timer)
      waiting.push(delivery)
      pump()
    }, after_ms)
    timers.add(timer)
  }

  function post(event: StoredEvent): Promise<number> {
    const payload = JSON.stringify(options.render(event))
    const headers = {
      'content-type': 'application/json; charset=utf-8',
      'content-length': Buffer.byteLength(payload),
      'user-agent': 'Stripe/1.0 (+https://stripe.com/docs/webhooks)',
      'stripe-signature': signStripe(payload, options.secret),
    }
    return new Promise((resolve) => {
      const outgoing = (isSecure ? httpsRequest : httpRequest)(
        url,
        { method: 'POST', agent, headers, timeout: DEADLINE_MS },
        (response) => {
          response.resume()
          response.on('end', () => resolve(response.statusCode ?? 0))
          response.on('error', () => resolve(0))
          response.on('close', () => resolve(0))
        },
      )
      outgoing.on('timeout', () => outgoing.destroy())
      outgoing.on('error', () => resolve(0))
      outgoing.end(payload)
    })
  }

  return {
    wants: (type) => options.types === null || options.types.includes(type),
    send(event) {
      if (Math.random() * 100 < settings.drop_percent) return void counts.dropped++
      if (Math.random() * 100 < settings.late_percent) {
        counts.delayed++
        return later({ event, attempt: 1 }, Math.random() * settings.late_ms)
      }
      if (settings.shuffle) return later({ event, attempt: 1 }, Math.random() * SHUFFLE_MS)
      waiting.push({ event, attempt: 1 })
      // After the answer to the request that caused it.
      setImmediate(pump)
    },
    async sendNow(event) {
      const status = await post(event)
      if (status >= 200 && status < 300) delivered(event)
      return status
    },
    change(changes) {
      Object.assign(settings, changes)
      pump()
    },
    describe: () => ({
      url: options.url,
      ...settings,
      ...counts,
      waiting: waiting.length - head + timers.size,
      sending,
    }),
    close() {
      closed = true
      for (const timer of timers) clearTimeout(timer)
      agent.destroy()
    },
  }
}

// Posts what Twilio tells: status callbacks and inbound messages, signed, once each.
import { createHmac } from 'node:crypto'
import { Agent, request as httpRequest } from 'node:http'
import { Agent as SecureAgent, request as httpsRequest } from 'node:https'
import { createGate } from '#core/gate.ts'

const CONCURRENCY = 32
/** Callbacks that wait, to be posted, for their time or for the end of a pause; more are dropped. */
const MOST_WAITING = 10_000
const WAIT_MS = 60_000
const DEADLINE_MS = 15_000
/** How far shuffled callbacks stray. */
const SHUFFLE_MS = 100
const MOST_READ = 10_000

type CallbackSettings = {
  /** Whether messages become sent and delivered by themselves. */
  automatic: boolean
  /** Callbacks wait until it is over. */
  paused: boolean
  shuffle: boolean
  duplicate_percent: number
  /** So many of them are lost before they are posted. */
  drop_percent: number
  /** So many of them are posted late, by up to `late_ms`. */
  late_percent: number
  late_ms: number
}

/** `status` 0: no answer. */
type Posted = { status: number; body: string }

export type CallbackSender = {
  settings: CallbackSettings
  counts: { posted: number; refused: number; dropped: number; delayed: number; duplicates: number }
  /** Posts as the settings have it. Resolves when it is over, or postponed. */
  send(url: string, params: Record<string, string>): Promise<void>
  /** Posts at once. */
  post(url: string, params: Record<string, string>): Promise<Posted>
  /** Posts what waits, unless it is still paused. */
  resume(): void
  /** Runs later, unless everything has ended by then. */
  later(work: () => Promise<void>, after_ms: number): void
  close(): void
}

/** The value of `X-Twilio-Signature`. */
function signTwilio(url: string, params: Record<string, string>, auth_token: string): string {
  const text = Object.keys(params)
    .sort()
    .map((name) => name + params[name]!)
    .join('')
  return createHmac('sha1', auth_token)
    .update(url + text)
    .digest('base64')
}

export function startCallbackSender(auth_token: string): CallbackSender {
  const agents = {
    http: new Agent({ keepAlive: true, maxSockets: CONCURRENCY }),
    https: new SecureAgent({ keepAlive: true, maxSockets: CONCURRENCY }),
  }
  const gate = createGate({
    running: CONCURRENCY,
    queue: { waiting: MOST_WAITING, wait_ms: WAIT_MS, refuse: () => new Error('too many callbacks wait') },
  })
  const settings: CallbackSettings = {
    automatic: true,
    paused: false,
    shuffle: false,
    duplicate_percent: 0,
    drop_percent: 0,
    late_percent: 0,
    late_ms: 60_000,
  }
  const counts = { posted: 0, refused: 0, dropped: 0, delayed: 0, duplicates: 0 }
  const timers = new Set<NodeJS.Timeout>()
  const waiting: (() => void)[] = []
  let closed = false

  function post(url: string, params: Record<string, string>): Promise<Posted> {
    return gate(() => exchange(url, params)).catch(() => ({ status: 0, body: '' }))
  }

  function exchange(url: string, params: Record<string, string>): Promise<Posted> {
    if (closed) return Promise.resolve({ status: 0, body: '' })
    const body = new URLSearchParams(params).toString()
    const headers = {
      'content-type': 'application/x-www-form-urlencoded; charset=UTF-8',
      'content-length': Buffer.byteLength(body),
      'user-agent': 'TwilioProxy/1.1',
      'x-twilio-signature': signTwilio(url, params, auth_token),
    }
    const is_secure = url.startsWith('https:')
    const agent = is_secure ? agents.https : agents.http
    return new Promise((resolve) => {
      const outgoing = (is_secure ? httpsRequest : httpRequest)(
        url,
        { method: 'POST', agent, headers, timeout: DEADLINE_MS },
        (response) => {
          let text = ''
          const status = response.statusCode ?? 0
          response.setEncoding('utf8')
          response.on('data', (part: string) => (text = (text + part).slice(0, MOST_READ)))
          response.on('error', () => resolve({ status: 0, body: '' }))
          response.on('close', () => resolve({ status, body: text }))
        },
      )
      outgoing.on('timeout', () => outgoing.destroy())
      outgoing.on('error', () => resolve({ status: 0, body: '' }))
      outgoing.end(body)
    })
  }

  async function deliver(url: string, params: Record<string, string>): Promise<void> {
    if (settings.paused && waiting.length >= MOST_WAITING) return void counts.dropped++
    if (settings.paused) return void waiting.push(() => void deliver(url, params))
    const { status } = await post(url, params)
    if (status >= 200 && status < 300) counts.posted++
    else counts.refused++
  }

  function later(work: () => Promise<void>, after_ms: number): void {
    if (closed) return
    if (timers.size >= MOST_WAITING) return void counts.dropped++
    const timer = setTimeout(() => {
      timers.delete(timer)
      void work()
    }, after_ms)
    timers.add(timer)
  }

  return {
    settings,
    counts,
    async send(url, params) {
      const chance = () => Math.random() * 100
      if (chance() < settings.drop_percent) return void counts.dropped++
      if (chance() < settings.duplicate_percent) {
        counts.duplicates++
        later(() => deliver(url, params), Math.random() * SHUFFLE_MS)
      }
      if (chance() < settings.late_percent) {
        counts.delayed++
        return later(() => deliver(url, params), Math.random() * settings.late_ms)
      }
      if (settings.shuffle) return later(() => deliver(url, params), Math.random() * SHUFFLE_MS)
      await deliver(url, params)
    },
    post,
    resume() {
      if (!settings.paused) for (const goOn of waiting.splice(0)) goOn()
    },
    later,
    close() {
      closed = true
      for (const timer of timers) clearTimeout(timer)
      agents.http.destroy()
      agents.https.destroy()
    },
  }
}

// Posts status callbacks and inbound messages, signed, once each.
import { createHmac } from 'node:crypto'
import { createGate } from '#core/gate.ts'
import { createPoster, NO_ANSWER, type Posted } from '../shared/post.ts'

const CONCURRENCY = 32
/** Limit of callbacks that wait for a connection, a delay or the end of a pause; further callbacks are dropped. */
const MAX_WAITING = 10_000
const MAX_WAIT_MS = 60_000
const DEADLINE_MS = 15_000
/** Maximum delay of shuffled callbacks. */
const SHUFFLE_MS = 100

type CallbackSettings = {
  /** Whether messages become sent and delivered automatically. */
  automatic: boolean
  /** Callbacks wait until `resume`. */
  paused: boolean
  shuffle: boolean
  duplicate_percent: number
  /** Percentage of callbacks that are never posted. */
  drop_percent: number
  /** Percentage of callbacks that are delayed by up to `late_ms`. */
  late_percent: number
  late_ms: number
}

const SETTINGS: CallbackSettings = {
  automatic: true,
  paused: false,
  shuffle: false,
  duplicate_percent: 0,
  drop_percent: 0,
  late_percent: 0,
  late_ms: 60_000,
}

export type CallbackSender = {
  settings: CallbackSettings
  counts: { posted: number; refused: number; dropped: number; delayed: number; duplicates: number }
  /** Posts according to the settings. Resolves when the callback is posted, dropped or postponed. */
  send(url: string, params: Record<string, string>): Promise<void>
  /** Posts at once, whatever the settings are. */
  post(url: string, params: Record<string, string>): Promise<Posted>
  /** Posts waiting callbacks unless still paused. */
  resume(): void
  /** Runs `work` after a delay, unless the sender has been closed. */
  schedule(work: () => Promise<void>, after_ms: number): void
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

/** Starts a sender that signs with `auth_token`. */
export function startCallbackSender(auth_token: string): CallbackSender {
  const poster = createPoster({ sockets: CONCURRENCY, deadline_ms: DEADLINE_MS })
  const gate = createGate({
    running: CONCURRENCY,
    queue: { waiting: MAX_WAITING, wait_ms: MAX_WAIT_MS, refuse: () => new Error('too many callbacks wait') },
  })
  const settings = { ...SETTINGS }
  const counts = { posted: 0, refused: 0, dropped: 0, delayed: 0, duplicates: 0 }
  const timers = new Set<NodeJS.Timeout>()
  const waiting: (() => void)[] = []
  let closed = false

  function post(url: string, params: Record<string, string>): Promise<Posted> {
    return gate(async () => {
      if (closed) return NO_ANSWER
      const headers = {
        'content-type': 'application/x-www-form-urlencoded; charset=UTF-8',
        'user-agent': 'TwilioProxy/1.1',
        'x-twilio-signature': signTwilio(url, params, auth_token),
      }
      return await poster.post(url, headers, new URLSearchParams(params).toString())
    }).catch(() => NO_ANSWER)
  }

  async function deliver(url: string, params: Record<string, string>): Promise<void> {
    if (settings.paused && waiting.length >= MAX_WAITING) return void counts.dropped++
    if (settings.paused) return void waiting.push(() => void deliver(url, params))
    const { status } = await post(url, params)
    if (status >= 200 && status < 300) counts.posted++
    else counts.refused++
  }

  function schedule(work: () => Promise<void>, after_ms: number): void {
    if (closed) return
    if (timers.size >= MAX_WAITING) return void counts.dropped++
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
        schedule(() => deliver(url, params), Math.random() * SHUFFLE_MS)
      }
      if (chance() < settings.late_percent) {
        counts.delayed++
        return schedule(() => deliver(url, params), Math.random() * settings.late_ms)
      }
      if (settings.shuffle) return schedule(() => deliver(url, params), Math.random() * SHUFFLE_MS)
      await deliver(url, params)
    },
    post,
    resume() {
      if (!settings.paused) for (const resumeDelivery of waiting.splice(0)) resumeDelivery()
    },
    schedule,
    close() {
      closed = true
      for (const timer of timers) clearTimeout(timer)
      poster.close()
    },
  }
}

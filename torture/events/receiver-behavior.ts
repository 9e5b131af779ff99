// Faulty behavior of a receiver: errors of every kind, before and after it has accepted an event.
import type { ServerResponse } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'

/** Resets the connection before the request is read. */
export const RESET_UNREAD = 'reset_unread'

/** Probability of each behavior. All other requests are accepted. */
export const BEHAVIOR_PROBABILITIES = {
  [RESET_UNREAD]: 0.01,
  /** Accepts the event and resets the connection without an answer. */
  lost_answer: 0.015,
  broken_head: 0.01,
  /** Never answers. */
  silent: 0.003,
  error_500: 0.04,
  rate_limited_429: 0.02,
  redirect_302: 0.02,
  /** Accepts the event, but the answer trickles on without an end or breaks off. */
  trickling_body: 0.01,
  broken_body: 0.02,
  slow: 0.02,
}
export type Behavior = keyof typeof BEHAVIOR_PROBABILITIES | 'accept'

const SLOW_MS = 1000
const TRICKLE_MS = 200
const RETRY_AFTER_S = '1'
const INCOMPLETE_BODY = { 'content-length': '1000' }

/** Answers a request with this behavior. `accept` writes the head of a 2xx answer. */
export async function misbehave(
  behavior: Exclude<Behavior, 'accept' | typeof RESET_UNREAD>,
  {
    response,
    accept,
    redirect_url,
  }: { response: ServerResponse; accept: (status: number) => void; redirect_url: string },
): Promise<void> {
  switch (behavior) {
    case 'silent':
      return
    case 'lost_answer':
      return void response.socket?.resetAndDestroy()
    case 'broken_head':
      response.socket?.write('HTTP/1.1 2')
      await sleep(SLOW_MS)
      return void response.socket?.resetAndDestroy()
    case 'error_500':
      return void response.writeHead(500).end('<html>It broke.</html>')
    case 'rate_limited_429':
      return void response.writeHead(429, { 'retry-after': RETRY_AFTER_S }).end()
    case 'redirect_302':
      return void response.writeHead(302, { location: redirect_url }).end()
    case 'trickling_body':
      accept(200)
      for (let times = 0; times < 100 && !response.closed; times++) {
        response.write('.')
        await sleep(TRICKLE_MS)
      }
      return void response.socket?.destroy()
    case 'broken_body':
      for (const [name, value] of Object.entries(INCOMPLETE_BODY)) response.setHeader(name, value)
      accept(201)
      response.write('{"accepted"')
      return void response.socket?.end()
    case 'slow':
      await sleep(SLOW_MS)
      accept(202)
      response.end()
  }
}

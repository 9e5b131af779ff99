// How many keys that are none an address may present before it is no longer listened to.
import type { FastifyReply } from 'fastify'
import { AppError } from '#core/errors.ts'

const RPS = 5
const BURST = 20
const EACH_MS = 1000 / RPS
const MOST_ADDRESSES = 20_000

export type Failures = {
  /** The refusal of an address that has used up what it may, else undefined. */
  refusal(ip: string): AppError | undefined
  count(ip: string): void
  /** The headers of a refusal: what the address may still present. */
  tell(ip: string, reply: FastifyReply): void
}

/** A bucket of failures for each address (GCRA); of the addresses that failed least lately some may be forgotten. */
export function createFailures(): Failures {
  /** When an address will have all of its bucket back. */
  const full = new Map<string, number>()

  /** Until there is room for one more failure; negative while there is room. */
  function wait_ms(ip: string): number {
    return (full.get(networkOf(ip)) ?? 0) - performance.now() - (BURST - 1) * EACH_MS
  }

  return {
    refusal(ip) {
      const left_ms = wait_ms(ip)
      if (left_ms <= 0) return undefined
      return new AppError('rate_limited', {
        message: 'Too many keys that are not valid came from this address.',
        retry_after_s: Math.ceil(left_ms / 1000),
      })
    },
    count(ip) {
      const now = performance.now()
      const network = networkOf(ip)
      const at = Math.max(full.get(network) ?? 0, now) + EACH_MS
      full.delete(network)
      full.set(network, Math.min(at, now + BURST * EACH_MS))
      const [oldest] = full.keys()
      if (full.size > MOST_ADDRESSES) full.delete(oldest!)
    },
    tell(ip, reply) {
      const left = Math.max(0, Math.min(BURST, Math.floor(1 - wait_ms(ip) / EACH_MS)))
      reply.header('ratelimit-policy', `"default";q=${BURST};w=${BURST / RPS}`)
      reply.header('ratelimit', `"default";r=${left};t=${Math.ceil((BURST - left) / RPS)}`)
    },
  }
}

/** Whom an address counts for: who has one of IPv6 has all of its /64. A port that a proxy forwards with it is no part of it. */
export function networkOf(address: string): string {
  const ip = /^\[(.*)\]/.exec(address)?.[1] ?? address
  const v4 = /^(?:::ffff:)?(\d+(?:\.\d+){3})(?::\d+)?$/i.exec(ip)?.[1]
  if (v4 !== undefined) return v4
  const [before = [], after = []] = ip.split('::').map((part) => part.split(':').filter(Boolean))
  const zeros = Array.from({ length: Math.max(0, 8 - before.length - after.length) }, () => '0')
  return [...before, ...zeros, ...after]
    .slice(0, 4)
    .map((group) => Number.parseInt(group, 16).toString(16))
    .join(':')
}

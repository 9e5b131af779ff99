// The mixed load: stories begin at a steady rate, each told by clients of both APIs.
import { setTimeout as sleep } from 'node:timers/promises'
import { act, createPayment, type Story } from './calls.ts'
import { seeded } from './random.ts'
import { nothingSeen, type Seen } from './record.ts'
import { tell } from './stories.ts'
import type { System } from './system.ts'

/** Some 140 requests a second, and 80 attempts at deliveries. */
export const STORIES_PER_S = 25
/** With more under way new ones wait. */
const MOST_AT_ONCE = 900
const PATIENCE_MS = 90_000
/** Reads have a chance of their own: they are beside others, and who comes first is not the seed's. */
const READS_PART = -3_000_000

export type Load = {
  seen: Seen
  /** Stories under way. */
  open(): number
  /** How often a client was not answered, or with 5xx by us and not for a provider that failed. */
  turnedAway(): number
  /** Begins no more stories; resolves when those under way have ended. */
  stop(): Promise<void>
  /** One payment, created and captured on that API; rejects when it is not within `limit_ms`. */
  probe(client: number, limit_ms: number): Promise<void>
}

/** Begins `stories_per_s` stories a second until it is stopped. The processor is told what others do there. */
export function startLoad(
  {
    clients,
    provider,
    webhooks_url,
    email_secret,
    newTenant,
  }: Pick<System, 'clients' | 'provider' | 'webhooks_url' | 'email_secret' | 'newTenant'>,
  seed: number,
  stories_per_s: number,
): Load {
  const processor = provider('stripe').control
  const seen = nothingSeen()
  const open = new Set<Promise<void>>()
  const began = performance.now()
  const stopping = new AbortController()
  let probes = 0

  function storyOf(key: string, part: number, first: number): Story {
    return {
      key,
      nth: part,
      random: seeded(seed, part),
      reads: seeded(seed, READS_PART - part),
      clients,
      first: first % clients.length,
      processor,
      provider,
      webhooks_url,
      email_secret,
      newTenant,
      seen,
      limit_ms: PATIENCE_MS,
    }
  }
  async function begin(): Promise<void> {
    for (let index = 0; !stopping.signal.aborted; index++) {
      const due = began + (index * 1000) / stories_per_s
      while (!stopping.signal.aborted && (performance.now() < due || open.size >= MOST_AT_ONCE))
        await sleep(5)
      if (stopping.signal.aborted) return
      const told = tell(storyOf(`story-${index}`, index, index)).catch((error: unknown) => {
        seen.problems.push({ problem: 'a client gave up', story: index, error: String(error) })
      })
      open.add(told)
      void told.finally(() => open.delete(told))
    }
  }
  const beginning = begin()

  return {
    seen,
    open: () => open.size,
    turnedAway: () => seen.turned_away,
    async stop() {
      stopping.abort()
      await beginning
      await Promise.all(open)
    },
    async probe(client, limit_ms) {
      const story = { ...storyOf(`probe-${++probes}`, -probes, 0), limit_ms, clients: [clients[client]!] }
      const payment = await createPayment(story, 1000, 'pm_card_visa')
      if (payment === null) throw new Error('the probe was refused')
      if (!(await act(story, 'capture', payment, { idempotency_key: `${story.key}-capture` })))
        throw new Error('the capture of the probe was refused, or nobody knows')
    },
  }
}

// The mixed load: stories begin at a steady rate, each told by clients of both APIs.
import { setTimeout as sleep } from 'node:timers/promises'
import { changePayment, createPayment, type Scenario } from './calls.ts'
import { seeded } from './random.ts'
import { emptyRecord, type ClientRecord } from './record.ts'
import { runScenario } from './scenarios.ts'
import type { System } from './system.ts'

/** Some 140 requests a second, and 80 attempts at deliveries. */
export const SCENARIOS_PER_S = 25
/** With more under way new ones wait. */
const MAX_CONCURRENT = 900
const TIMEOUT_MS = 90_000
/** Reads have a chance of their own: they are beside others, and who comes first is not the seed's. */
const READS_STREAM = -3_000_000

export type Load = {
  seen: ClientRecord
  /** Stories under way. */
  open(): number
  /** How often a client was not answered, or with 5xx by us and not for a provider that failed. */
  countRefused(): number
  /** Begins no more stories; resolves when those under way have ended. */
  stop(): Promise<void>
  /** One payment, created and captured on that API; rejects when it is not within `limit_ms`. */
  probe(client: number, limit_ms: number): Promise<void>
}

/** Begins `scenarios_per_s` stories a second until it is stopped. The processor is told what others do there. */
export function startLoad(
  {
    clients,
    provider,
    webhooks_url,
    email_secret,
    newTenant,
  }: Pick<System, 'clients' | 'provider' | 'webhooks_url' | 'email_secret' | 'newTenant'>,
  seed: number,
  scenarios_per_s: number,
): Load {
  const processor = provider('stripe').control
  const seen = emptyRecord()
  const open = new Set<Promise<void>>()
  const began = performance.now()
  const stopping = new AbortController()
  let probes = 0

  function scenarioOf(key: string, stream: number, first_client: number): Scenario {
    return {
      key,
      nth: stream,
      random: seeded(seed, stream),
      reads: seeded(seed, READS_STREAM - stream),
      clients,
      first_client: first_client % clients.length,
      processor,
      provider,
      webhooks_url,
      email_secret,
      newTenant,
      seen,
      limit_ms: TIMEOUT_MS,
    }
  }
  async function begin(): Promise<void> {
    for (let index = 0; !stopping.signal.aborted; index++) {
      const due = began + (index * 1000) / scenarios_per_s
      while (!stopping.signal.aborted && (performance.now() < due || open.size >= MAX_CONCURRENT))
        await sleep(5)
      if (stopping.signal.aborted) return
      const running = runScenario(scenarioOf(`story-${index}`, index, index)).catch((error: unknown) => {
        seen.problems.push({ problem: 'a client gave up', scenario: index, error: String(error) })
      })
      open.add(running)
      void running.finally(() => open.delete(running))
    }
  }
  const beginning = begin()

  return {
    seen,
    open: () => open.size,
    countRefused: () => seen.refused,
    async stop() {
      stopping.abort()
      await beginning
      await Promise.all(open)
    },
    async probe(client, limit_ms) {
      const scenario = {
        ...scenarioOf(`probe-${++probes}`, -probes, 0),
        limit_ms,
        clients: [clients[client]!],
      }
      const payment = await createPayment(scenario, 1000, 'pm_card_visa')
      if (payment === null) throw new Error('the probe was refused')
      if (
        !(await changePayment(scenario, 'capture', payment, { idempotency_key: `${scenario.key}-capture` }))
      )
        throw new Error('the capture of the probe was refused, or nobody knows')
    },
  }
}

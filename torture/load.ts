// The mixed load: scenarios start at a constant rate, run by clients of both APIs.
import { setTimeout as sleep } from 'node:timers/promises'
import { changePayment, createPayment, type Scenario } from './calls.ts'
import { seeded } from './random.ts'
import { emptyRecord, type ClientRecord } from './record.ts'
import { repeatSent } from './repeats.ts'
import { runScenario } from './scenarios.ts'
import type { System } from './system.ts'
import { createTenantGate } from './tenants.ts'
import { recordedSince } from './verdict/lost.ts'

/** The rate causes about 140 requests and 80 delivery attempts a second. */
export const SCENARIOS_PER_S = 25
/** New scenarios wait while this many scenarios run. */
const MAX_CONCURRENT = 900
const TIMEOUT_MS = 90_000
/**
 * Payouts and refunds without cover are refused until the lists of the providers were read after a switch of the
 * database. Each further switch begins that wait again.
 */
const SWITCHES_TIMEOUT_MS = 180_000
/**
 * Reads have their own random numbers, because they run concurrently with other calls: their order does not depend on
 * the seed alone.
 */
const READS_STREAM = -3_000_000
const REPEATS_STREAM = -5_000_000

export type Load = {
  record: ClientRecord
  /** Number of running scenarios. */
  open(): number
  /** Number of requests without an answer, or with a 5xx that no provider failure explains. */
  countRefused(): number
  /** For how long no scenario was started because of switches. */
  pausedMs(): number
  /** Starts no more scenarios. Resolves when all have ended. */
  stop(): Promise<void>
  /** Creates and captures one payment with this client. Rejects after `limit_ms`. */
  probe(client: number, limit_ms: number): Promise<void>
  /**
   * Runs `work` while no tenant is created: what nobody but an operator can do again must not be lost.
   */
  withoutNewTenants: (work: () => Promise<void>) => Promise<void>
  /**
   * Interrupts the scenarios that ran at or after `since`, and starts no others while `work` makes the database go back
   * to that time. Then clients repeat a part of what was accepted meanwhile, while `release` makes the system usable
   * again. `since`: clock `performance.now()`.
   */
  whileSwitching(since: number, work: () => Promise<void>, release?: () => Promise<void>): Promise<void>
}

/** What the load uses of the system. */
type Driven = Pick<System, 'clients' | 'newTenant' | 'restorable' | 'sql' | 'redis' | 'encryption_keys'> &
  Pick<System, 'provider' | 'webhooks_url' | 'email_secret'>

/** Starts `scenarios_per_s` scenarios a second until it is stopped. */
export function startLoad(system: Driven, seed: number, scenarios_per_s: number): Load {
  const { clients, provider, webhooks_url, email_secret } = system
  const processor = provider('stripe').control
  const refused_limit_ms = system.restorable === null ? TIMEOUT_MS : SWITCHES_TIMEOUT_MS
  const usual = { limit_ms: TIMEOUT_MS, refused_limit_ms }
  const record = emptyRecord()
  const open = new Map<string, Promise<void>>()
  /** When each scenario ended. */
  const ended = new Map<string, number>()
  const repeating: Promise<void>[] = []
  const tenants = createTenantGate(() => system.newTenant())
  const switching = { now: false, paused_ms: 0 }
  const started_at = performance.now()
  const stopping = new AbortController()
  let probes = 0

  function scenarioOf(key: string, stream: number, first_client: number, limits = usual): Scenario {
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
      newTenant: () => tenants.newTenant(),
      record,
      ...limits,
      isInterrupted: () => record.interrupted.has(key),
    }
  }
  async function startScenarios(): Promise<void> {
    for (let index = 0; !stopping.signal.aborted; index++) {
      const due = () => started_at + switching.paused_ms + (index * 1000) / scenarios_per_s
      while (
        !stopping.signal.aborted &&
        (performance.now() < due() || open.size >= MAX_CONCURRENT || switching.now)
      )
        await sleep(5)
      if (stopping.signal.aborted) return
      const key = `scenario-${index}`
      const running = runScenario(scenarioOf(key, index, index)).catch((error: unknown) => {
        record.problems.push({ problem: 'a scenario failed', scenario: index, error: String(error) })
      })
      open.set(key, running)
      void running.finally(() => {
        open.delete(key)
        ended.set(key, performance.now())
      })
    }
  }
  const beginning = startScenarios()

  return {
    record,
    open: () => open.size,
    countRefused: () => record.refused,
    pausedMs: () => switching.paused_ms,
    async stop() {
      stopping.abort()
      await beginning
      await Promise.all([...open.values(), ...repeating])
    },
    withoutNewTenants: (work) => tenants.withoutNewTenants(work),
    async whileSwitching(since, work, release = () => Promise.resolve()) {
      switching.now = true
      const lost = [...ended].filter(([, at]) => at >= since).map(([key]) => key)
      for (const key of [...lost, ...open.keys()]) record.interrupted.add(key)
      open.clear()
      const at = performance.now()
      try {
        await work()
        record.switches.push({ since, until: performance.now() })
        const random = seeded(seed, REPEATS_STREAM - record.switches.length)
        const emails_since = await recordedSince(system)
        repeating.push(repeatSent(record, { since, until: at, emails_since }, random))
        await release()
      } finally {
        switching.now = false
        switching.paused_ms += performance.now() - at
      }
    },
    async probe(client, limit_ms) {
      const limits = { limit_ms, refused_limit_ms: limit_ms }
      const scenario = { ...scenarioOf(`probe-${++probes}`, -probes, 0, limits), clients: [clients[client]!] }
      const payment = await createPayment(scenario, 1000, 'pm_card_visa')
      if (payment === null) throw new Error('the probe was refused')
      const capture = { idempotency_key: `${scenario.key}-capture` }
      if (!(await changePayment(scenario, 'capture', payment, capture)))
        throw new Error('the capture of the probe was refused or its outcome is unknown')
    },
  }
}

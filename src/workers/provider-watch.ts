// Watches the calls to providers: counts failed calls, detects outages, and logs one line a minute for each outage
// while calls fail, with the variables to check. Answered calls are not stored.
import type { Sql } from '#core/db.ts'
import type { Log } from '#core/log.ts'
import { CALL_FAILURES, findOutages, writeOutages } from '#domain/operations/provider-outages.ts'
import type { FinishedCall } from '#providers/http.ts'
import { repeat, type Loop } from './clock.ts'
import { createFailedCallCounts } from './failed-calls.ts'
import { createProviderHealth, type CallHealth } from './provider-health.ts'

const REPORT_INTERVAL_MS = 5_000
/** An outage ends this long after its last failed call if no job waits for the provider. */
const UNNEEDED_OUTAGE_EXPIRY_MS = 90_000

export type ProviderWatch = {
  /** Records an ended call. */
  ended(provider: string, call: FinishedCall): void
  /** Records a sent call with its deadline; call the returned function when the attempt at its job ends. */
  sent(provider: string, deadline_ms: number): () => void
  /** Writes failed calls and outages every few seconds until it is closed. */
  report(sql: Sql, worker: string): Loop
}

export function watchProviders(log: Log): ProviderWatch {
  const providers = new Map<string, CallHealth>()
  const failed = createFailedCallCounts()
  let has_written_outages = false

  function healthOf(provider: string): CallHealth {
    const health = providers.get(provider) ?? createProviderHealth(provider, log)
    providers.set(provider, health)
    return health
  }

  async function write(sql: Sql, worker: string): Promise<void> {
    const outages = [...providers].flatMap(([provider, health]) => {
      const outage = health.outage()
      if (outage === null) return []
      return [{ provider, outcome: outage.outcome, lasts_ms: Math.round(Date.now() - outage.since) }]
    })
    if (failed.isEmpty() && outages.length === 0 && !has_written_outages) return
    await failed.flush(async (calls) => {
      await writeOutages(sql, worker, { failed: calls, outages })
      has_written_outages = outages.length > 0
    })
  }

  /** Ends the outages that no job waits for any more. */
  async function endUnneeded(sql: Sql): Promise<void> {
    const quiet = [...providers].flatMap(([provider, health]) => {
      const { failed_at = Infinity } = health.outage() ?? {}
      return Date.now() - failed_at < UNNEEDED_OUTAGE_EXPIRY_MS ? [] : [{ provider, health, failed_at }]
    })
    if (quiet.length === 0) return
    const needed = new Set((await findOutages(sql)).map(({ provider }) => provider))
    for (const { provider, health, failed_at } of quiet)
      // A call may have failed during the query.
      if (!needed.has(provider) && health.outage()?.failed_at === failed_at) health.forget()
  }

  return {
    ended(provider, { outcome, duration_ms, health }) {
      if (health === 'unknown') return
      const failure = CALL_FAILURES.find((each) => each === outcome)
      if (failure === undefined || health === 'answers') return healthOf(provider).answer()
      healthOf(provider).count()
      failed.add(provider, failure)
      const began_at = Date.now() - duration_ms
      if (health !== 'late') healthOf(provider).fail(failure, began_at)
      else if (!healthOf(provider).wasAnsweredSince(began_at)) healthOf(provider).fail('late', began_at)
    },
    sent: (provider, deadline_ms) => healthOf(provider).sent(deadline_ms),
    report(sql, worker) {
      const reportNow = async () => {
        for (const health of providers.values()) health.check()
        await write(sql, worker)
        await endUnneeded(sql)
      }
      const loop = repeat(log, 'the report on providers', () => REPORT_INTERVAL_MS, reportNow)
      return {
        async close() {
          await loop.close()
          // A stopped worker reports no outages.
          for (const health of providers.values()) health.forget()
          await write(sql, worker).catch(() => {})
        },
      }
    },
  }
}

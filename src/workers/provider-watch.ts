// Watches the calls to providers: counts failed calls, detects outages of providers and of their operations, and logs
// one line a minute for each outage while calls fail, with the variables to check. Answered calls are not stored.
import type { Config } from '#core/config.ts'
import type { Log } from '#core/log.ts'
import { clientOperation } from '#core/config/providers.ts'
import type { Sql } from '#core/db.ts'
import { CALL_FAILURES } from '#domain/operations/outage-texts.ts'
import { findOutages, writeOutages } from '#domain/operations/provider-outages.ts'
import type { DatabaseWatch } from '#domain/switches/watch.ts'
import type { FinishedCall } from '#providers/http.ts'
import { repeatWhileCurrent, type Loop } from './clock.ts'
import { createFailedCallCounts } from './failed-calls.ts'
import type { CallHealth } from './provider-health.ts'
import { createProviderStates } from './provider-states.ts'

const REPORT_INTERVAL_MS = 5_000
/** An outage ends this long after its last failed call if no job waits for the provider. */
const UNNEEDED_OUTAGE_EXPIRY_MS = 90_000

/** `provider`: the key of the provider, which says its mode. */
export type ProviderWatch = {
  /** Records an ended call. */
  ended(provider: string, call: FinishedCall): void
  /**
   * Records a sent call with its deadline; call the returned function when the attempt at its job ends. `operation`:
   * the operation of the job's call.
   */
  sent(provider: string, deadline_ms: number, operation?: string): () => void
  /** Writes failed calls and outages every few seconds until it is closed. */
  report(context: { sql: Sql; database: DatabaseWatch }, worker: string): Loop
}

export function watchProviders(context: { log: Log; config: Config }): ProviderWatch {
  const { log } = context
  const providers = createProviderStates(context)
  const failed = createFailedCallCounts()
  let has_written_outages = false

  async function write(sql: Sql, worker: string): Promise<void> {
    const now = Date.now()
    const outages = providers.all().flatMap(({ provider, operation, health }) => {
      const outage = health.outage()
      if (outage === null) return []
      return [
        {
          provider,
          operation,
          outcome: outage.outcome,
          lasts_ms: Math.round(now - outage.since),
          failed_ms: Math.round(now - outage.failed_at),
          is_partial: health.isPartial(),
        },
      ]
    })
    if (failed.isEmpty() && outages.length === 0 && !has_written_outages) return
    await failed.flush(async (calls) => {
      await writeOutages(sql, worker, { failed: calls, outages })
      has_written_outages = outages.length > 0
    })
  }

  /** Ends the outages that no job waits for any more. */
  async function endUnneeded(sql: Sql): Promise<void> {
    const quiet = providers.all().flatMap((each) => {
      const { failed_at = Infinity } = each.health.outage() ?? {}
      return Date.now() - failed_at < UNNEEDED_OUTAGE_EXPIRY_MS ? [] : [{ ...each, failed_at }]
    })
    if (quiet.length === 0) return
    const outages = [...(await findOutages(sql)), ...(await findOutages(sql, false))]
    for (const { provider, operation, health, failed_at } of quiet) {
      const is_needed = outages.some(
        (each) =>
          each.provider === provider &&
          (each.operations.length === 0 || operation === null || each.operations.includes(operation)),
      )
      // A call may have failed during the query.
      if (!is_needed && health.outage()?.failed_at === failed_at) health.forget()
    }
  }

  return {
    ended(provider, { operation, outcome, duration_ms, health: reported_health }) {
      if (reported_health === 'unknown') return
      const failure = CALL_FAILURES.find((each) => each === outcome)
      if (failure === undefined || reported_health === 'answers') return providers.answer(provider, operation)
      failed.add(provider, failure)
      const began_at = Date.now() - duration_ms
      const of_operation = providers.ofOperation(provider, operation)
      const count = (health: CallHealth) => {
        if (health.wasAnsweredSince(began_at)) return
        health.count()
        health.fail(reported_health === 'late' ? 'late' : failure, began_at)
      }
      count(of_operation)
      // The failures of an operation with a partial outage are no outage of the provider.
      if (!of_operation.isPartial()) count(providers.ofProvider(provider))
    },
    sent(provider, deadline_ms, operation) {
      const of_operation =
        operation === undefined ? null : providers.ofOperation(provider, clientOperation(operation))
      const ends = [
        ...(of_operation === null ? [] : [of_operation.sent(deadline_ms)]),
        ...(of_operation?.isPartial() === true ? [] : [providers.ofProvider(provider).sent(deadline_ms)]),
      ]
      return () => ends.forEach((end) => end())
    },
    report({ sql, database }, worker) {
      const reportNow = async () => {
        for (const { health } of providers.all()) health.check()
        await write(sql, worker)
        await endUnneeded(sql)
      }
      const loop = repeatWhileCurrent(
        { log, database },
        'the report on providers',
        () => REPORT_INTERVAL_MS,
        reportNow,
      )
      return {
        async close() {
          await loop.close()
          // A stopped worker reports no outages.
          for (const { health } of providers.all()) health.forget()
          await database.whileCurrent(() => write(sql, worker)).catch(() => {})
        },
      }
    },
  }
}

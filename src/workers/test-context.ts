// The context of tenants in test mode. Its calls count in no metric and in no outage of live mode.
import { providerKey } from '#core/config/providers.ts'
import { openTestProviders, type OpenedSet } from '#providers/configured.ts'
import type { WorkerContext } from './context.ts'
import { traceCall } from './job-span.ts'
import { watchProviders } from './provider-watch.ts'

/**
 * `context` opens the providers of test mode when it is first called: most installations have no tenant in test mode.
 * `queues`: those that this worker serves.
 */
export function createTestContext(
  live: WorkerContext,
  queues: readonly string[],
): { context(): WorkerContext; close(): Promise<void> } {
  const { log, config, job_log } = live
  let opened: OpenedSet | undefined
  let context: WorkerContext | undefined

  function open(): WorkerContext {
    // Its outages are logged, and not reported to operators.
    const watch = watchProviders({ log, config })
    opened = openTestProviders(config, queues, (provider, call) => {
      traceCall(provider, call)
      watch.ended(provider, call)
      job_log.call(call)
    })
    const { providers, credentials, configured } = opened
    return {
      ...live,
      ...providers,
      credentials,
      configured,
      livemode: false,
      provider_watch: {
        ...watch,
        ended: (provider, call) => watch.ended(providerKey(provider, false), call),
        sent: (provider, ...call) => watch.sent(providerKey(provider, false), ...call),
      },
    }
  }

  return {
    context: () => (context ??= open()),
    close: async () => await opened?.close(),
  }
}

// The context of tenants in test mode. Its calls count in no metric, and its outages are those of its own providers.
import { providerKey } from '#core/config/providers.ts'
import { openTestProviders, type OpenedSet } from '#providers/configured.ts'
import type { WorkerContext } from './context.ts'
import { traceCall } from './job-span.ts'

/**
 * `context` opens the providers of test mode when it is first called: most installations have no tenant in test mode.
 * `queues`: those that this worker serves.
 */
export function createTestContext(
  live: WorkerContext,
  queues: readonly string[],
): { context(): WorkerContext; close(): Promise<void> } {
  const { config, job_log, provider_watch } = live
  let opened: OpenedSet | undefined
  let context: WorkerContext | undefined

  function open(): WorkerContext {
    opened = openTestProviders(config, queues, (provider, call) => {
      traceCall(provider, call)
      provider_watch.ended(provider, call)
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
        ...provider_watch,
        ended: (provider, call) => provider_watch.ended(providerKey(provider, false), call),
        sent: (provider, ...call) => provider_watch.sent(providerKey(provider, false), ...call),
      },
    }
  }

  return {
    context: () => (context ??= open()),
    close: async () => await opened?.close(),
  }
}

// The contexts of tenants in test mode. Their calls count in no metric, and outages are those of their own providers.
import { providerKey } from '#core/config/providers.ts'
import { openSandboxProviders, openTestProviders, type OpenedSet } from '#providers/configured.ts'
import type { WorkerContext } from './context.ts'
import { traceCall } from './job-span.ts'
import type { Sandboxes } from './sandbox/open.ts'

/** A context has no state of its own: the tenant that was used least recently gets another one. */
const MAX_CONTEXTS = 64

type TestContexts = {
  /** What all tenants in test mode share. */
  context(): WorkerContext
  contextOf(tenant_id: string): Promise<WorkerContext>
  sandboxes(): Promise<Sandboxes>
  close(): Promise<void>
}

/**
 * The providers of test mode are opened, and the sandboxes loaded, when they are first needed: most installations have
 * no tenant in test mode. `queues`: those that this worker serves.
 */
export function createTestContexts(live: WorkerContext, queues: readonly string[]): TestContexts {
  const { config, job_log, provider_watch } = live
  let shared: { opened: OpenedSet; context: WorkerContext } | undefined
  let sandboxes: Promise<Sandboxes> | undefined
  /** By tenant, the one that was used last at the end. */
  const contexts = new Map<string, WorkerContext>()

  function open(): NonNullable<typeof shared> {
    const opened = openTestProviders(config, queues, (provider, call) => {
      traceCall(provider, call)
      provider_watch.ended(provider, call)
      job_log.call(call)
    })
    const { providers, credentials, configured } = opened
    const context: WorkerContext = {
      ...live,
      ...providers,
      credentials,
      configured,
      livemode: false,
      provider_watch: {
        ...provider_watch,
        ended: (provider, call) => provider_watch.ended(providerKey(provider, false), call),
        // A sandbox has no outages: it fails only with the database.
        sent: (provider, ...call) =>
          configured.has(provider) ? provider_watch.sent(providerKey(provider, false), ...call) : () => {},
      },
    }
    return { opened, context }
  }

  const sharedContext = () => (shared ??= open())

  async function load(): Promise<Sandboxes> {
    const { openSandboxes } = await import('./sandbox/open.ts')
    return openSandboxes(live)
  }

  function loaded(): Promise<Sandboxes> {
    sandboxes ??= load().catch((error: unknown) => {
      // The next call loads them again.
      sandboxes = undefined
      throw error
    })
    return sandboxes
  }

  async function openContext(tenant_id: string): Promise<WorkerContext> {
    const { opened: test_accounts, context } = sharedContext()
    const clients = (await loaded()).clientsOf(tenant_id, onSandboxCall)
    const { providers, credentials, configured } = openSandboxProviders(config, queues, {
      clients,
      onCall: onSandboxCall,
      test_accounts,
    })
    return { ...context, ...providers, credentials, configured, sandbox_of: tenant_id }
  }

  const onSandboxCall: Parameters<Sandboxes['clientsOf']>[1] = (provider, call) => {
    traceCall(providerKey(provider, false), call)
    job_log.call(call)
  }

  return {
    context: () => sharedContext().context,
    async contextOf(tenant_id) {
      const context = contexts.get(tenant_id) ?? (await openContext(tenant_id))
      contexts.delete(tenant_id)
      contexts.set(tenant_id, context)
      const [oldest] = contexts.keys()
      if (contexts.size > MAX_CONTEXTS) contexts.delete(oldest!)
      return context
    },
    sandboxes: loaded,
    async close() {
      await shared?.opened.close()
      await (await sandboxes?.catch(() => undefined))?.host.close()
    },
  }
}

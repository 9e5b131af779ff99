// Providers whose credentials this worker lacks although it performs their jobs. Such a job waits for a worker that has
// them: it never fails because of this worker's configuration.
import { AI, EMAIL, SMS, type ProviderOperation } from '#core/config/providers.ts'
import type { VariableName } from '#core/config/variables.ts'
import { metrics } from '#core/metrics.ts'
import type { WorkerContext } from '../context.ts'
import { isTestAttempt } from '../job-log.ts'

const OPTIONAL_PROVIDERS = {
  email: { provider: EMAIL.provider, area: 'messages', needs: EMAIL.credentials },
  sms: { provider: SMS.provider, area: 'messages', needs: SMS.credentials },
  ai: { provider: AI.provider, area: 'ai', needs: AI.credentials },
} as const satisfies Record<string, { provider: string; area: string; needs: readonly VariableName[] }>
type OptionalProvider = keyof typeof OPTIONAL_PROVIDERS

/** "SMTP_URL is not set": the variables that this worker lacks to call the provider. */
function missingText({ config }: WorkerContext, role: OptionalProvider): string {
  const missing = OPTIONAL_PROVIDERS[role].needs.filter((name) => config[name] === undefined)
  return `${missing.join(' and ')} ${missing.length === 1 ? 'is' : 'are'} not set`
}

/** Warns of each provider whose jobs this worker claims but cannot perform. Disabled areas have no jobs. */
export function warnOfMissingCredentials(context: WorkerContext): void {
  for (const role of Object.keys(OPTIONAL_PROVIDERS) as OptionalProvider[]) {
    const { provider, area } = OPTIONAL_PROVIDERS[role]
    if (context[role] !== null || context.config.DISABLED_AREAS.includes(area)) continue
    context.log.warn(
      { provider },
      `${missingText(context, role)}: this worker cannot call the provider, and such jobs wait for a worker that can`,
    )
  }
}

/**
 * Records a call that could not be made for lack of credentials: metrics and outages show it like refused credentials.
 * Returns the reason for the attempt.
 */
export function recordMissingCredentials(
  context: WorkerContext,
  role: OptionalProvider,
  operation: ProviderOperation,
): string {
  const { provider } = OPTIONAL_PROVIDERS[role]
  if (!isTestAttempt()) metrics.misconfigured.inc({ provider })
  context.provider_watch.ended(provider, { operation, outcome: 'misconfigured', duration_ms: 0 })
  return missingText(context, role)
}

// Providers whose credentials this worker lacks although it performs their jobs. Such a job waits for a worker that has
// them: it never fails because of this worker's configuration.
import { AI, EMAIL, SMS, type ProviderOperation } from '#core/config/providers.ts'
import type { VariableName } from '#core/config/variables.ts'
import { metrics } from '#core/metrics.ts'
import { variablesToCheck } from '#domain/operations/outage-texts.ts'
import type { WorkerContext } from '../context.ts'

const OPTIONAL = {
  email: { provider: EMAIL.provider, area: 'messages', needs: credentialsOf(EMAIL.provider) },
  sms: { provider: SMS.provider, area: 'messages', needs: credentialsOf(SMS.provider) },
  ai: { provider: AI.provider, area: 'ai', needs: AI.credentials },
} as const
type OptionalProvider = keyof typeof OPTIONAL

function credentialsOf(provider: string): readonly VariableName[] {
  return variablesToCheck(provider, 'misconfigured') as readonly VariableName[]
}

/** "SMTP_URL is not set": the variables that this worker lacks to call the provider. */
function missingText({ config }: WorkerContext, role: OptionalProvider): string {
  const missing = OPTIONAL[role].needs.filter((name) => config[name] === undefined)
  return `${missing.join(' and ')} ${missing.length === 1 ? 'is' : 'are'} not set`
}

/** Warns of each provider whose jobs this worker claims but cannot perform. Disabled areas have no jobs. */
export function warnOfMissingCredentials(context: WorkerContext): void {
  for (const role of Object.keys(OPTIONAL) as OptionalProvider[]) {
    const { provider, area } = OPTIONAL[role]
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
  const { provider } = OPTIONAL[role]
  metrics.misconfigured.inc({ provider })
  context.provider_watch.ended(provider, { operation, outcome: 'misconfigured', duration_ms: 0 })
  return missingText(context, role)
}

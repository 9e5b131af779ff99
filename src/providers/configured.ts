// Opens the configured providers.
import assert from 'node:assert/strict'
import { ConfigError, requireVariable, type Config } from '#core/config.ts'
import { list } from '#core/config/list.ts'
import { AI, EMAIL, IDENTITY, PAYMENTS, PAYOUTS, SMS, TOP_UPS } from '#core/config/providers.ts'
import type { VariableName } from '#core/config/variables.ts'
import type { Json } from '#core/db.ts'
import type { Outcome } from '#core/outcome.ts'
import { openAi } from './ai/client.ts'
import type { FinishedCall } from './http.ts'
import type { ProviderEventTarget } from './events.ts'
import { openSmtp } from './smtp/client.ts'
import type { StripeOptions } from './stripe/client.ts'
import { stripeIdentity } from './stripe/identity.ts'
import { eventTargetOf } from './stripe/events.ts'
import { stripeProcessor } from './stripe/payments.ts'
import { stripePayouts } from './stripe/payouts.ts'
import { stripeTopUps } from './stripe/top-ups.ts'
import { openTwilio } from './twilio/client.ts'

type OnCall = (call: FinishedCall) => void

/**
 * The providers by role: name, the queues whose jobs call the provider, and `open`, which returns null if the provider
 * is not configured.
 */
const PROVIDERS = {
  processor: {
    ...PAYMENTS,
    open: (config: Config, onCall: OnCall) => stripeProcessor(stripeOptions(config, onCall)),
  },
  payouts: {
    ...PAYOUTS,
    open: (config: Config, onCall: OnCall) => stripePayouts(stripeOptions(config, onCall)),
  },
  top_ups: {
    ...TOP_UPS,
    open: (config: Config, onCall: OnCall) => stripeTopUps(stripeOptions(config, onCall)),
  },
  identity: {
    ...IDENTITY,
    open: (config: Config, onCall: OnCall) => stripeIdentity(stripeOptions(config, onCall)),
  },
  ai: { ...AI, open: openConfiguredAi },
  email: { ...EMAIL, open: openConfiguredEmail },
  sms: { ...SMS, open: openConfiguredSms },
}

function stripeOptions(config: Config, onCall: OnCall): StripeOptions {
  requireVariable(config, 'STRIPE_SECRET_KEY')
  return {
    get secret_key() {
      return requireVariable(config, 'STRIPE_SECRET_KEY')
    },
    api_base: config.STRIPE_API_BASE ?? null,
    onCall,
  }
}

/**
 * The account of the value of a secret, and the fingerprint that calls with it have; null if the secret is not the key
 * of an account.
 */
export async function findAccountOfSecret(
  config: Config,
  name: VariableName,
  value: string,
): Promise<{ provider: string; fingerprint: string; account: Outcome<string> } | null> {
  if (name !== 'STRIPE_SECRET_KEY') return null
  const opened = stripeProcessor({ secret_key: value, api_base: config.STRIPE_API_BASE ?? null })
  try {
    return { provider: opened.name, fingerprint: opened.credentials, account: await opened.findAccount() }
  } finally {
    await opened.close()
  }
}

function openConfiguredAi(config: Config, onCall: OnCall) {
  if (AI.credentials.every((name) => config[name] === undefined)) return null
  requireVariable(config, 'AI_API_KEY')
  return openAi({
    base_url: requireVariable(config, 'AI_BASE_URL'),
    get api_key() {
      return requireVariable(config, 'AI_API_KEY')
    },
    model: config.AI_MODEL,
    max_tokens_field: config.AI_MAX_TOKENS_FIELD,
    onCall,
  })
}

function openConfiguredEmail(config: Config, onCall: OnCall) {
  if (config.SMTP_URL === undefined) return null
  const { DKIM_DOMAIN: domain, DKIM_SELECTOR: selector, DKIM_PRIVATE_KEY: private_key } = config
  const require_tls = config.NODE_ENV === 'production'
  const set_values = [domain, selector, private_key].filter((value) => value !== undefined)
  if (set_values.length % 3 !== 0)
    throw new ConfigError(
      'DKIM_DOMAIN, DKIM_SELECTOR and DKIM_PRIVATE_KEY belong together: set all three, or none.',
    )
  const dkim =
    domain === undefined || selector === undefined || private_key === undefined
      ? null
      : { domain, selector, private_key }
  return openSmtp({
    get url() {
      return requireVariable(config, 'SMTP_URL')
    },
    connections: config.SMTP_CONNECTIONS,
    dkim,
    require_tls,
    onCall,
  })
}

function openConfiguredSms(config: Config, onCall: OnCall) {
  const { TWILIO_ACCOUNT_SID: account_sid } = config
  // Requests use the first token. Callbacks accept all tokens, so that a token can be rotated.
  const firstToken = () => list(config.TWILIO_AUTH_TOKEN ?? '')[0]
  if (account_sid === undefined || firstToken() === undefined) return null
  return openTwilio({
    account_sid,
    get auth_token() {
      return firstToken() ?? ''
    },
    api_base: config.TWILIO_API_BASE ?? null,
    onCall,
  })
}

type Role = keyof typeof PROVIDERS
const ROLES = Object.keys(PROVIDERS) as Role[]
/** The providers, for handlers and recurring work. */
export type Providers = { readonly [Each in Role]: ReturnType<(typeof PROVIDERS)[Each]['open']> }
/** `PROVIDERS` with a type in which `open` of a role returns the provider of that role. */
const BY_ROLE: {
  readonly [Each in Role]: { provider: string; open(config: Config, onCall: OnCall): Providers[Each] }
} = PROVIDERS
/**
 * The credentials of calls, by provider name. `fingerprint`: of the present credentials. Contains only providers whose
 * credentials are recorded with their calls.
 */
export type ProviderCredentials = Readonly<
  Record<string, { readonly fingerprint: string; findAccount: () => Promise<Outcome<string>> }>
>
type OpenedProviders<Each extends Role> = { -readonly [One in Each]?: Providers[One] }

/** The roles of the providers that jobs of these queues call. */
export function rolesOfQueues(queues: readonly string[]): Role[] {
  return ROLES.filter((role) => PROVIDERS[role].queues.some((queue) => queues.includes(queue)))
}

/**
 * Opens the providers that jobs of these queues call. Use of any other provider throws. `onCall` is called after each
 * call to a provider. Throws ConfigError if a required variable is missing.
 */
export function openProviders(
  config: Config,
  queues: readonly string[],
  onCall: (provider: string, call: FinishedCall) => void,
): { providers: Providers; credentials: ProviderCredentials; close(): Promise<void> } {
  const roles = rolesOfQueues(queues)
  const providers: OpenedProviders<Role> = {}
  function add<Each extends Role>(role: Each, to: OpenedProviders<Each>): void {
    const row = BY_ROLE[role]
    to[role] = roles.includes(role)
      ? row.open(config, (call) => onCall(row.provider, call))
      : unavailableProvider(role)
  }
  ROLES.forEach((role) => add(role, providers))
  assert(isComplete(providers), 'openProviders created no client for one of the provider roles')
  const credentials = roles.flatMap((role): [string, ProviderCredentials[string]][] => {
    const opened = providers[role]
    if (opened === null || !('credentials' in opened)) return []
    return [
      [
        opened.name,
        {
          get fingerprint() {
            return opened.credentials
          },
          findAccount: () => opened.findAccount(),
        },
      ],
    ]
  })
  return {
    providers,
    credentials: Object.fromEntries(credentials),
    async close() {
      for (const role of roles) await providers[role]?.close()
    },
  }
}

function isComplete(providers: Partial<Providers>): providers is Providers {
  return ROLES.every((role) => role in providers)
}

// A stand-in for a provider that is not opened: any access fails.
function unavailableProvider<Each extends Role>(role: Each): Providers[Each] {
  const fail = () => assert.fail(`no queue of this process calls the provider "${role}"`)
  return new Proxy({}, { get: fail }) as Providers[Each]
}

/**
 * The readers of stored provider events, by provider name. A reader returns the target of an event, or null if the
 * event is about an object that is not stored here.
 */
export const EVENT_READERS: Readonly<Record<string, (payload: Json) => ProviderEventTarget | null>> = {
  stripe: eventTargetOf,
}

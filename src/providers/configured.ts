// Opens the configured providers.
import assert from 'node:assert/strict'
import { ConfigError, requireVariable, type Config } from '#core/config.ts'
import { list } from '#core/config/list.ts'
import { AI, EMAIL, IDENTITY, PAYMENTS, PAYOUTS, providerKey, SMS, TOP_UPS } from '#core/config/providers.ts'
import type { Json } from '#core/db.ts'
import type { Outcome } from '#core/outcome.ts'
import { openAi } from './ai/client.ts'
import type { ProviderEventTarget } from './events.ts'
import type { FinishedCall } from './http.ts'
import type { SandboxClients } from './sandbox-clients.ts'
import { sandboxedProviders } from './sandboxed.ts'
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
 * is not configured. `open_test`: the same for test mode.
 */
const PROVIDERS = {
  processor: {
    ...PAYMENTS,
    open: (config: Config, onCall: OnCall) => stripeProcessor(stripeOptions(config, onCall)),
    open_test: ofTestAccount(stripeProcessor),
  },
  payouts: {
    ...PAYOUTS,
    open: (config: Config, onCall: OnCall) => stripePayouts(stripeOptions(config, onCall)),
    open_test: ofTestAccount(stripePayouts),
  },
  top_ups: {
    ...TOP_UPS,
    open: (config: Config, onCall: OnCall) => stripeTopUps(stripeOptions(config, onCall)),
    open_test: ofTestAccount(stripeTopUps),
  },
  identity: {
    ...IDENTITY,
    open: (config: Config, onCall: OnCall) => stripeIdentity(stripeOptions(config, onCall)),
    open_test: ofTestAccount(stripeIdentity),
  },
  ai: { ...AI, open: openConfiguredAi, open_test: noTestProvider },
  email: { ...EMAIL, open: openConfiguredEmail, open_test: noTestProvider },
  sms: { ...SMS, open: openConfiguredSms, open_test: noTestProvider },
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

/** Opens a role of the processor with the key of test mode; null without that key. */
function ofTestAccount<Opened>(
  open: (options: StripeOptions) => Opened,
): (config: Config, onCall: OnCall) => Opened | null {
  return (config, onCall) => {
    if (config.STRIPE_TEST_SECRET_KEY === undefined) return noTestProvider()
    return open({
      get secret_key() {
        return requireVariable(config, 'STRIPE_TEST_SECRET_KEY')
      },
      api_base: config.STRIPE_TEST_API_BASE ?? null,
      onCall,
    })
  }
}

/** Without an account of test mode at its provider, a role has only the sandboxes of tenants. */
function noTestProvider(): null {
  return null
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
  readonly [Each in Role]: {
    provider: string
    open(config: Config, onCall: OnCall): Providers[Each]
    open_test(config: Config, onCall: OnCall): Providers[Each] | null
  }
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

type OnProviderCall = (provider: string, call: FinishedCall) => void

/**
 * Opened providers. `credentials`: by the name of the provider. `configured`: the names of the providers that can be
 * called.
 */
export type OpenedSet = {
  providers: Providers
  credentials: ProviderCredentials
  configured: ReadonlySet<string>
  close(): Promise<void>
}

/**
 * Opens the providers that jobs of these queues call. Use of any other provider throws. `onCall` is called after each
 * call to a provider. Throws ConfigError if a required variable is missing.
 */
export function openProviders(config: Config, queues: readonly string[], onCall: OnProviderCall): OpenedSet {
  return openRoles(queues, (role) => role.open(config, (call) => onCall(role.provider, call)))
}

/**
 * The same with the accounts of test mode. Use of a provider without one throws; an optional one is null. `onCall` gets
 * the key of the provider.
 */
export function openTestProviders(
  config: Config,
  queues: readonly string[],
  onCall: OnProviderCall,
): OpenedSet {
  return openRoles(queues, (role) =>
    role.open_test(config, (call) => onCall(providerKey(role.provider, false), call)),
  )
}

/**
 * Opens the providers of a tenant in test mode: those with an account of test mode, and the others on the sandbox of
 * the tenant.
 */
export function openSandboxProviders(
  config: Config,
  queues: readonly string[],
  {
    clients,
    onCall,
    test_accounts: { configured, providers },
  }: { clients: SandboxClients; onCall: OnProviderCall; test_accounts: OpenedSet },
): OpenedSet {
  const sandboxed: { readonly [Each in Role]: () => Providers[Each] } = sandboxedProviders(
    config,
    clients,
    onCall,
  )
  return openRoles(queues, ({ provider }, role) =>
    configured.has(provider) ? providers[role] : sandboxed[role](),
  )
}

function openRoles(
  queues: readonly string[],
  open: <Each extends Role>(of: (typeof BY_ROLE)[Each], role: Each) => Providers[Each] | null,
): OpenedSet {
  const roles = rolesOfQueues(queues)
  const providers: OpenedProviders<Role> = {}
  const opened_roles: Role[] = []
  function add<Each extends Role>(role: Each, to: OpenedProviders<Each>): void {
    const opened = roles.includes(role) ? open<Each>(BY_ROLE[role], role) : unavailableProvider(role)
    if (roles.includes(role) && opened !== null) opened_roles.push(role)
    to[role] = opened ?? absentProvider(role)
  }
  ROLES.forEach((role) => add(role, providers))
  assert(isComplete(providers), 'openRoles created no client for one of the provider roles')
  const credentials = opened_roles.flatMap((role): [string, ProviderCredentials[string]][] => {
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
    configured: new Set(opened_roles.map((role) => BY_ROLE[role].provider)),
    async close() {
      for (const role of opened_roles) await providers[role]?.close()
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

const OPTIONAL_ROLES: readonly Role[] = ['ai', 'email', 'sms']

// A provider that is not configured: null if it is optional. No job of a tenant in test mode reaches the other
// stand-in: its sandbox has all providers.
function absentProvider<Each extends Role>(role: Each): Providers[Each] {
  if (OPTIONAL_ROLES.includes(role)) return null as Providers[Each]
  const fail = () => assert.fail(`test mode has no provider "${role}"`)
  return new Proxy({}, { get: fail }) as Providers[Each]
}

/**
 * The readers of stored provider events, by provider name. A reader returns the target of an event, or null if the
 * event is about an object that is not stored here.
 */
export const EVENT_READERS: Readonly<Record<string, (payload: Json) => ProviderEventTarget | null>> = {
  stripe: eventTargetOf,
}

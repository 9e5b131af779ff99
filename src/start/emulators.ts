// The emulators that `npm start` runs for providers without configuration.
import { createHmac } from 'node:crypto'
import { join } from 'node:path'
import type { Config } from '#core/config.ts'
import { AI, EMAIL, SMS } from '#core/config/providers.ts'
import type { VariableName } from '#core/config/variables.ts'
import { emulatorAddress, type EmulatorPort, type ListenAddress } from '#core/startup.ts'
import { EVENT_TYPES } from '#providers/stripe/events.ts'

type ProviderVariable =
  | 'STRIPE_API_BASE'
  | 'STRIPE_SECRET_KEY'
  | 'TWILIO_API_BASE'
  | (typeof EMAIL.credentials)[number]
  | (typeof SMS.credentials)[number]
  | (typeof AI.credentials)[number]

type EmulatorSettings = {
  /** Name of the provider in the banner. */
  provider_name: string
  file: string
  port: EmulatorPort
  /** Prefix of the emulator's URL. Default: `http://`. */
  scheme?: string
  /** Present if the page and the controls of the emulator have a port of their own. */
  page?: { name: 'inbox'; port: EmulatorPort }
  /** The provider counts as configured if one of these variables is set. */
  provider_variables: readonly VariableName[]
  /** The variable that the banner names for configuring the provider. */
  variable: VariableName
  /** Banner note: how the emulator differs from the provider. */
  note: string
  /** The API key of the emulator's callers; null: the emulator reads the key from a variable. */
  api_key: string | null
  /** The variables that make the other parts use this emulator. */
  variables: (url: string, config: Config) => Partial<Record<ProviderVariable, string>>
  /** Further command line options, in addition to port, key and folder. */
  args: (config: Config) => string[]
  /** The variables that the emulator reads. */
  reads: readonly VariableName[]
  /** Whether production works without this provider: then `npm start` does not run the emulator there. */
  is_optional: boolean
}

const TWILIO_ACCOUNT = `AC${'0'.repeat(32)}`

/**
 * The auth token of the Twilio emulator. It is derived from ENCRYPTION_KEY, so that each start has the same token. A
 * caller with this token can post statuses of messages.
 */
function twilioToken({ ENCRYPTION_KEY = '' }: Config): string {
  return createHmac('sha256', ENCRYPTION_KEY).update('twilio emulator').digest('hex').slice(0, 32)
}

const SETTINGS = {
  stripe: {
    provider_name: 'Stripe',
    file: 'src/emulators/stripe/main.ts',
    port: 'EMULATOR_PORT',
    provider_variables: ['STRIPE_API_BASE', 'STRIPE_SECRET_KEY'],
    variable: 'STRIPE_SECRET_KEY',
    note: 'no money moves',
    api_key: 'sk_test_emulator',
    variables: (url) => ({ STRIPE_API_BASE: url, STRIPE_SECRET_KEY: 'sk_test_emulator' }),
    args: ({ WEBHOOKS_URL, EMULATOR_EVENTS }) => [
      `--webhook-url=${WEBHOOKS_URL}/stripe`,
      ...(EMULATOR_EVENTS === 'needed' ? [`--webhook-events=${EVENT_TYPES.join()}`] : []),
    ],
    // The secret with which the emulator signs webhooks.
    reads: ['STRIPE_WEBHOOK_SECRET'],
    is_optional: false,
  },
  twilio: {
    provider_name: 'Twilio',
    file: 'src/emulators/twilio/main.ts',
    port: 'TWILIO_EMULATOR_PORT',
    provider_variables: ['TWILIO_ACCOUNT_SID', 'TWILIO_AUTH_TOKEN', 'TWILIO_API_BASE'],
    variable: 'TWILIO_ACCOUNT_SID',
    note: 'no SMS leaves',
    api_key: null,
    variables: (url, config) => ({
      TWILIO_API_BASE: url,
      TWILIO_ACCOUNT_SID: TWILIO_ACCOUNT,
      TWILIO_AUTH_TOKEN: twilioToken(config),
      TWILIO_FROM: config.TWILIO_FROM ?? '+15005550006',
    }),
    args: ({ WEBHOOKS_URL }) => [`--account-sid=${TWILIO_ACCOUNT}`, `--webhook-url=${WEBHOOKS_URL}/twilio`],
    // The token with which the emulator signs callbacks.
    reads: ['TWILIO_AUTH_TOKEN'],
    is_optional: true,
  },
  smtp: {
    provider_name: 'Email',
    file: 'src/emulators/smtp/main.ts',
    port: 'SMTP_EMULATOR_PORT',
    scheme: 'smtp://emulator:smtp-emulator@',
    page: { name: 'inbox', port: 'INBOX_PORT' },
    provider_variables: ['SMTP_URL'],
    variable: 'SMTP_URL',
    note: 'an inbox that shows all email',
    api_key: 'smtp-emulator',
    variables: (url, { EMAIL_FROM = 'Sluice <mail@sluice.example>' }) => ({ SMTP_URL: url, EMAIL_FROM }),
    args: () => [],
    reads: [],
    is_optional: true,
  },
  ai: {
    provider_name: 'AI',
    file: 'src/emulators/ai/main.ts',
    port: 'AI_EMULATOR_PORT',
    provider_variables: AI.credentials,
    variable: 'AI_BASE_URL',
    note: 'no model answers',
    api_key: 'ai-emulator',
    variables: (url) => ({ AI_BASE_URL: `${url}/v1`, AI_API_KEY: 'ai-emulator' }),
    args: () => [],
    reads: [],
    is_optional: true,
  },
} as const satisfies Record<string, EmulatorSettings>

export type EmulatorName = keyof typeof SETTINGS
/** A listener: an emulator, or the page of an emulator. */
export type EmulatorListener = EmulatorName | NonNullable<EmulatorSettings['page']>['name']
export const EMULATORS: Readonly<Record<EmulatorName, EmulatorSettings>> = SETTINGS
const EMULATOR_NAMES = Object.keys(EMULATORS) as EmulatorName[]

/** The emulators to run: one for each provider that is not configured. */
export function emulatorsOf(config: Config): EmulatorName[] {
  const is_production = config.NODE_ENV === 'production' && !config.ALLOW_EMULATORS
  return EMULATOR_NAMES.filter((name) => {
    const { provider_variables, is_optional } = EMULATORS[name]
    return (
      provider_variables.every((variable) => config[variable] === undefined) &&
      !(is_production && is_optional)
    )
  })
}

/** The addresses of the emulators to run, each with the prefix of its URL. */
export function emulatorAddresses(config: Config): [EmulatorListener, ListenAddress, scheme: string][] {
  return emulatorsOf(config).flatMap((name) => {
    const { port, scheme = 'http://', page } = EMULATORS[name]
    const itself: [EmulatorListener, ListenAddress, string] = [name, emulatorAddress(config, port), scheme]
    return page === undefined
      ? [itself]
      : [itself, [page.name, emulatorAddress(config, page.port), 'http://']]
  })
}

/** The variables that make the other parts use the running emulators. */
export function emulatorVariables(
  config: Config,
  urlOf: (name: EmulatorListener) => string,
): Partial<Record<ProviderVariable, string>> {
  const variables = emulatorsOf(config).map((name) => EMULATORS[name].variables(urlOf(name), config))
  return Object.assign({}, ...variables) as Partial<Record<ProviderVariable, string>>
}

/** The command line arguments of an emulator. */
export function emulatorArgs(
  name: EmulatorName,
  config: Config,
  portOf: (name: EmulatorListener) => number,
  data_dir: string,
): string[] {
  const { api_key, args, page } = EMULATORS[name]
  const ports =
    page === undefined
      ? [`--port=${portOf(name)}`]
      : [`--port=${portOf(page.name)}`, `--${name}-port=${portOf(name)}`]
  return [
    ...ports,
    ...(api_key === null ? [] : [`--api-key=${api_key}`]),
    `--data-dir=${join(data_dir, name)}`,
    ...args(config),
  ]
}

/** Banner lines about the providers. */
export function providerNotes(config: Config, urlOf: (name: EmulatorListener) => string): string[] {
  const running = emulatorsOf(config)
  return EMULATOR_NAMES.flatMap((name) => {
    const { provider_name, variable, note, provider_variables, page } = EMULATORS[name]
    if (running.includes(name))
      return [
        `${provider_name.padEnd(12)} EMULATED at ${urlOf(page?.name ?? name)} (${note}; set ${variable} for the real one)`,
      ]
    const is_configured = provider_variables.some((each) => config[each] !== undefined)
    return is_configured
      ? [`${provider_name.padEnd(12)} yours (${variable})`]
      : [`${provider_name.padEnd(12)} none (${variable} is not set)`]
  })
}

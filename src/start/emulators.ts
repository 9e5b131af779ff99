// The emulators that `npm start` runs for providers that are not configured: a row each.
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
  /** As people call its provider. */
  of: string
  file: string
  port: EmulatorPort
  /** How its address begins; `http://` unless told. */
  scheme?: string
  /** Where its page and controls have a port of their own: their name, and its variable. */
  page?: { name: 'inbox'; port: EmulatorPort }
  /** Its provider is configured if one of these is set. */
  provider_variables: readonly VariableName[]
  /** The variable that says in the banner that the provider is yours. */
  set: VariableName
  /** What is not real about it. */
  note: string
  /** Null: it reads what its callers know in a variable. */
  api_key: string | null
  /** The variables that point the product to it. */
  variables: (url: string, config: Config) => Partial<Record<ProviderVariable, string>>
  /** Its options, beside port, key and folder. */
  args: (config: Config) => string[]
  /** The variables that it reads itself. */
  reads: readonly VariableName[]
  /** Whether `npm start` does without it in production, where its provider may be missing. */
  is_optional: boolean
}

const TWILIO_ACCOUNT = `AC${'0'.repeat(32)}`

/** Of this folder alone, and the same at every start: whoever knows it can say what became of messages. */
function twilioToken({ ENCRYPTION_KEY = '' }: Config): string {
  return createHmac('sha256', ENCRYPTION_KEY).update('twilio emulator').digest('hex').slice(0, 32)
}

const SETTINGS = {
  stripe: {
    of: 'Stripe',
    file: 'src/emulators/stripe/main.ts',
    port: 'EMULATOR_PORT',
    provider_variables: ['STRIPE_API_BASE', 'STRIPE_SECRET_KEY'],
    set: 'STRIPE_SECRET_KEY',
    note: 'no money moves',
    api_key: 'sk_test_emulator',
    variables: (url) => ({ STRIPE_API_BASE: url, STRIPE_SECRET_KEY: 'sk_test_emulator' }),
    args: ({ WEBHOOKS_URL, EMULATOR_EVENTS }) => [
      `--webhook-url=${WEBHOOKS_URL}/stripe`,
      ...(EMULATOR_EVENTS === 'needed' ? [`--webhook-events=${EVENT_TYPES.join()}`] : []),
    ],
    // It signs what it sends.
    reads: ['STRIPE_WEBHOOK_SECRET'],
    is_optional: false,
  },
  twilio: {
    of: 'Twilio',
    file: 'src/emulators/twilio/main.ts',
    port: 'TWILIO_EMULATOR_PORT',
    provider_variables: ['TWILIO_ACCOUNT_SID', 'TWILIO_AUTH_TOKEN', 'TWILIO_API_BASE'],
    set: 'TWILIO_ACCOUNT_SID',
    note: 'no SMS leaves',
    api_key: null,
    variables: (url, config) => ({
      TWILIO_API_BASE: url,
      TWILIO_ACCOUNT_SID: TWILIO_ACCOUNT,
      TWILIO_AUTH_TOKEN: twilioToken(config),
      TWILIO_FROM: config.TWILIO_FROM ?? '+15005550006',
    }),
    args: ({ WEBHOOKS_URL }) => [`--account-sid=${TWILIO_ACCOUNT}`, `--webhook-url=${WEBHOOKS_URL}/twilio`],
    // It signs what it posts.
    reads: ['TWILIO_AUTH_TOKEN'],
    is_optional: true,
  },
  smtp: {
    of: 'Email',
    file: 'src/emulators/smtp/main.ts',
    port: 'SMTP_EMULATOR_PORT',
    scheme: 'smtp://emulator:smtp-emulator@',
    page: { name: 'inbox', port: 'INBOX_PORT' },
    provider_variables: ['SMTP_URL'],
    set: 'SMTP_URL',
    note: 'an inbox that shows all email',
    api_key: 'smtp-emulator',
    variables: (url, { EMAIL_FROM = 'Sluice <mail@sluice.example>' }) => ({ SMTP_URL: url, EMAIL_FROM }),
    args: () => [],
    reads: [],
    is_optional: true,
  },
  ai: {
    of: 'AI',
    file: 'src/emulators/ai/main.ts',
    port: 'AI_EMULATOR_PORT',
    provider_variables: AI.credentials,
    set: 'AI_BASE_URL',
    note: 'no model answers',
    api_key: 'ai-emulator',
    variables: (url) => ({ AI_BASE_URL: `${url}/v1`, AI_API_KEY: 'ai-emulator' }),
    args: () => [],
    reads: [],
    is_optional: true,
  },
} as const satisfies Record<string, EmulatorSettings>

export type EmulatorName = keyof typeof SETTINGS
/** What listens: an emulator, or the page of one. */
export type EmulatorListener = EmulatorName | NonNullable<EmulatorSettings['page']>['name']
export const EMULATORS: Readonly<Record<EmulatorName, EmulatorSettings>> = SETTINGS
const EMULATOR_NAMES = Object.keys(EMULATORS) as EmulatorName[]

/** The emulators that are used: those whose provider is not configured. */
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

/** Where the emulators that are used listen, and how the addresses begin. */
export function emulatorAddresses(config: Config): [EmulatorListener, ListenAddress, scheme: string][] {
  return emulatorsOf(config).flatMap((name) => {
    const { port, scheme = 'http://', page } = EMULATORS[name]
    const itself: [EmulatorListener, ListenAddress, string] = [name, emulatorAddress(config, port), scheme]
    return page === undefined
      ? [itself]
      : [itself, [page.name, emulatorAddress(config, page.port), 'http://']]
  })
}

/** The variables that point the product to the emulators that are used. `urlOf`: where they listen. */
export function emulatorVariables(
  config: Config,
  urlOf: (name: EmulatorListener) => string,
): Partial<Record<ProviderVariable, string>> {
  const variables = emulatorsOf(config).map((name) => EMULATORS[name].variables(urlOf(name), config))
  return Object.assign({}, ...variables) as Partial<Record<ProviderVariable, string>>
}

/** What an emulator is started with. `portOf`: where it listens. */
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

/** The lines of the banner about the providers. */
export function providerNotes(config: Config, urlOf: (name: EmulatorListener) => string): string[] {
  const running = emulatorsOf(config)
  return EMULATOR_NAMES.flatMap((name) => {
    const { of, set, note, provider_variables, page } = EMULATORS[name]
    if (running.includes(name))
      return [
        `${of.padEnd(12)} EMULATED at ${urlOf(page?.name ?? name)} (${note}; set ${set} for the real one)`,
      ]
    const is_configured = provider_variables.some((variable) => config[variable] !== undefined)
    return is_configured ? [`${of.padEnd(12)} yours (${set})`] : [`${of.padEnd(12)} none (${set} is not set)`]
  })
}

// The provider emulators of a system under test. All emulators have the same kind of handle.
import { join } from 'node:path'
import type { AiEmulatorOptions } from '#emulators/ai/main.ts'
import type { SmtpEmulatorOptions } from '#emulators/smtp/main.ts'
import type { StripeEmulatorOptions } from '#emulators/stripe/main.ts'
import type { TwilioEmulatorOptions } from '#emulators/twilio/main.ts'
import { EVENT_TYPES } from '#providers/stripe/events.ts'
import type { Process } from './process.ts'

type EmulatorOptions = {
  port: number
  api_key: string
  webhook_url?: string
  webhook_secret?: string
  webhook_events?: string[]
  data_dir?: string
  record_requests?: boolean
}

/** Options that override an emulator's defaults. */
type Changes = {
  stripe: Partial<StripeEmulatorOptions>
  twilio: Partial<TwilioEmulatorOptions>
  smtp: Partial<SmtpEmulatorOptions>
  ai: Partial<AiEmulatorOptions>
}

export type ProviderName = keyof Changes
export type EmulatorChanges = { [Name in ProviderName]?: Changes[Name] }

/** The addresses of an emulator. */
export type ProviderAddresses = { url: string } & Record<string, string>

type Row<Own> = {
  api_key: string
  /**
   * For a provider with notifications: its signing secret, the variable for the secret, and the event types that Sluice
   * needs. If `variable` is null, the provider signs with `api_key`, and always sends all event types.
   */
  webhooks:
    | { secret: string; variable: string; needed_events: string[] }
    | { secret: string; variable: null }
    | null
  /** Variables that do not depend on the emulator's addresses. */
  variables: Record<string, string>
  /**
   * Variables that contain the emulator's addresses. `addresses` has `url`, the address of the control API, and others.
   */
  addressVariables: (addresses: ProviderAddresses) => Record<string, string>
  /**
   * The name of the control API's address among the addresses that the emulator prints. Default: `<name>_url`.
   */
  control?: string
  /**
   * Starts the emulator in this process. As a separate process the emulator is `src/emulators/<name>/main.ts` and
   * prints `<name>_url` when it is ready.
   */
  start: (
    usual: EmulatorOptions,
    own: Own | undefined,
  ) => Promise<{ url: string; places?: Record<string, string>; close(): Promise<void> }>
}

// Add an entry for each new provider.
const PROVIDERS: { [Name in ProviderName]: Row<Changes[Name]> } = {
  stripe: {
    api_key: 'sk_test_emulator',
    webhooks: {
      secret: 'whsec_test_current',
      variable: 'STRIPE_WEBHOOK_SECRET',
      needed_events: EVENT_TYPES,
    },
    variables: { STRIPE_SECRET_KEY: 'sk_test_emulator' },
    addressVariables: ({ url }) => ({ STRIPE_API_BASE: url }),
    start: async (usual, own) =>
      await (await import('#emulators/stripe/main.ts')).startStripeEmulator({ ...usual, ...own }),
  },
  smtp: {
    api_key: 'smtp-emulator',
    webhooks: null,
    variables: { EMAIL_FROM: 'Sluice <mail@sluice.example>' },
    control: 'inbox_url',
    addressVariables: ({ smtp_url = '' }) => ({ SMTP_URL: smtp_url }),
    start: async (usual, own) =>
      await (await import('#emulators/smtp/main.ts')).startSmtpEmulator({ ...usual, ...own }),
  },
  ai: {
    api_key: 'ai-emulator',
    webhooks: null,
    variables: { AI_API_KEY: 'ai-emulator' },
    addressVariables: ({ url }) => ({ AI_BASE_URL: `${url}/v1` }),
    start: async (usual, own) =>
      await (await import('#emulators/ai/main.ts')).startAiEmulator({ ...usual, ...own }),
  },
  twilio: {
    api_key: 'twilio-emulator',
    webhooks: { secret: 'twilio-emulator', variable: null },
    variables: {
      TWILIO_ACCOUNT_SID: `AC${'0'.repeat(32)}`,
      TWILIO_AUTH_TOKEN: 'twilio-emulator',
      TWILIO_FROM: '+15005550006',
    },
    addressVariables: ({ url }) => ({ TWILIO_API_BASE: url }),
    start: async (usual, own) =>
      await (await import('#emulators/twilio/main.ts')).startTwilioEmulator({ ...usual, ...own }),
  },
}
const PROVIDER_NAMES = Object.keys(PROVIDERS) as ProviderName[]

/** A scripted fault. */
export type Fault = {
  /** Resolves with the count of hits when the fault has been hit this many times. Rejects after `timeout_ms`. */
  hit(times?: number, timeout_ms?: number): Promise<number>
  /** Lets held requests continue. */
  release(): Promise<void>
  /** Lets held requests continue and removes the fault. */
  remove(): Promise<void>
}

/** A filter of the control API: the required value of each field. `path` is a regular expression. */
type Filter = Record<string, string | number>

export type Provider = {
  url: string
  /** The addresses of the emulator. */
  addresses: ProviderAddresses
  api_key: string
  /** The secret with which the emulator signs notifications. */
  webhook_secret: string
  /**
   * Calls the emulator's control API, `/_emulator<path>`, and returns the response. Rejects if the response is an
   * error.
   */
  control: (method: 'GET' | 'POST' | 'DELETE', path: string, body?: object) => Promise<any>
  /** The requests to the emulator's API that match the filter, oldest first. */
  requests(filter?: Filter): Promise<any[]>
  /** The effects in the emulator's own record that match the filter, oldest first. */
  effects(filter?: Filter): Promise<any[]>
  /** Scripts a fault. */
  fault(script: object): Promise<Fault>
}

export type Providers = Map<ProviderName, Provider>

/** Starts `node <file>`. Resolves when an output line contains `ready`. */
type Launch = (
  name: string,
  file: string,
  how: { args: string[]; ready: string },
) => Promise<Pick<Process, 'ready' | 'end'>>

export type ProviderOptions = {
  /** Starts a process for each emulator. Default: the emulators run in this process. */
  launch?: Launch | undefined
  /** The address of the webhooks host, which receives notifications. Default: no notifications are sent. */
  webhooks_url?: string | undefined
  /** Sends only the event types that Sluice needs. Default: all. */
  only_needed?: boolean
  /** The folder for the emulators' data, with a folder for each emulator. Default: data in memory only. */
  data_dir?: string | undefined
  /** Whether the emulators record requests. Default: true. */
  record_requests?: boolean
  /** Overrides options of emulators that run in this process. */
  changes?: EmulatorChanges | undefined
}

/** Starts the emulator of each provider. `cleanup` stops the emulators. */
export async function startProviders(
  cleanup: AsyncDisposableStack,
  options: ProviderOptions,
): Promise<Providers> {
  const providers: Providers = new Map()
  for (const name of PROVIDER_NAMES) {
    const addresses = await startEmulator(cleanup, name, options, options.changes?.[name])
    providers.set(name, handleOf(name, addresses))
  }
  return providers
}

/** The product's variables for all providers. `addressesOf` returns the addresses of a provider. */
export function providerVariables(
  addressesOf: (name: ProviderName) => ProviderAddresses,
): Record<string, string> {
  const all: Record<string, string> = {}
  for (const name of PROVIDER_NAMES) {
    const { variables, webhooks, addressVariables } = PROVIDERS[name]
    Object.assign(all, variables, addressVariables(addressesOf(name)))
    if (webhooks !== null && webhooks.variable !== null) all[webhooks.variable] = webhooks.secret
  }
  return all
}

/** Starts an emulator and returns its addresses. */
async function startEmulator<Name extends ProviderName>(
  cleanup: AsyncDisposableStack,
  name: Name,
  { launch, webhooks_url, only_needed = false, data_dir, record_requests = true }: ProviderOptions,
  own: Changes[Name] | undefined,
): Promise<ProviderAddresses> {
  const { api_key, webhooks, start, control = `${name}_url` } = PROVIDERS[name]
  const usual: EmulatorOptions = {
    port: 0,
    api_key,
    ...(webhooks !== null &&
      webhooks_url !== undefined && {
        webhook_url: `${webhooks_url}/${name}`,
        ...(webhooks.variable !== null && { webhook_secret: webhooks.secret }),
      }),
    ...(webhooks !== null &&
      webhooks.variable !== null &&
      only_needed && { webhook_events: webhooks.needed_events }),
    ...(data_dir !== undefined && { data_dir: join(data_dir, name) }),
  }
  if (launch === undefined) {
    const emulator = await start({ ...usual, record_requests }, own)
    cleanup.defer(() => emulator.close())
    return { ...emulator.places, url: emulator.url }
  }
  const args = Object.entries(usual).map(
    ([option, value]) => `--${option.replaceAll('_', '-')}=${String(value)}`,
  )
  const emulator = await launch(name, `src/emulators/${name}/main.ts`, {
    args: record_requests ? args : [...args, '--no-request-log'],
    ready: `${name}_url`,
  })
  cleanup.defer(async () => void (await emulator.end('SIGTERM')))
  const addresses = JSON.parse(emulator.ready) as Record<string, string>
  return { ...addresses, url: addresses[control]! }
}

/** The handle of a running emulator at these addresses. */
export function handleOf(name: ProviderName, addresses: ProviderAddresses): Provider {
  const { url } = addresses
  async function control(method: string, path: string, body?: object): Promise<any> {
    const response = await fetch(`${url}/_emulator${path}`, {
      method,
      headers: { 'content-type': 'application/json' },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    const answer: unknown = await response.json()
    if (!response.ok) throw new Error(`${name} refused ${method} ${path}: ${JSON.stringify(answer)}`)
    return answer
  }
  async function found(path: string, filter: Filter = {}): Promise<any[]> {
    const query = Object.entries(filter).map(([field, value]) => [field, String(value)])
    return (await control('GET', `${path}?${new URLSearchParams(query).toString()}`)).data
  }
  const { api_key, webhooks } = PROVIDERS[name]
  return {
    url,
    addresses,
    api_key,
    webhook_secret: webhooks?.secret ?? '',
    control,
    requests: (filter) => found('/requests', filter),
    effects: (filter) => found('/effects', filter),
    async fault(script) {
      const { id } = await control('POST', '/faults', script)
      return {
        hit: async (times = 1, timeout_ms = 100_000) =>
          (await control('GET', `/wait?fault=${id}&hits=${times}&timeout_ms=${timeout_ms}`)).hits,
        release: async () => void (await control('POST', '/release', { fault: id })),
        remove: async () => void (await control('DELETE', `/faults/${id}`)),
      }
    },
  }
}

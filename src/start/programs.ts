// The programs that `npm start` runs, each with its configuration in the environment.
import { fileURLToPath } from 'node:url'
import type { Config } from '#core/config.ts'
import { isReadBy } from '#core/config/readers.ts'
import type { ProcessName } from '#core/config/row.ts'
import { fileVariableOf, SECRET_NAMES } from '#core/config/secret-files.ts'
import { VARIABLE_NAMES, type VariableName } from '#core/config/variables.ts'
import { emulatorArgs, EMULATORS, emulatorsOf, emulatorVariables } from './emulators.ts'
import type { PartAddresses } from './addresses.ts'

export type Program = {
  /** The name in messages, e.g. `worker` in "The worker is back." */
  name: string
  file: string
  args: string[]
  /** Variables that are added to the environment of this process. */
  env: Record<string, string>
}

const FILES = {
  api: 'src/api/main.ts',
  webhooks: 'src/webhooks/main.ts',
  worker: 'src/workers/main.ts',
  dashboard: 'src/dashboard/main.ts',
} as const

/** Placeholders for secrets: the API and the dashboard need to know only whether they are set. */
export const PLACEHOLDERS = {
  AI_API_KEY: 'set',
  TWILIO_AUTH_TOKEN: 'set',
  SMTP_URL: 'smtp://set',
}

/** Whether this command line runs one of the programs, of any checkout. */
export function isProgram(command: string): boolean {
  const files = [...Object.values(FILES), ...Object.values(EMULATORS).map(({ file }) => file)]
  return files.some((file) => command.includes(`/${file}`))
}

/**
 * The programs of this configuration, in groups that stop one after the other: producers of jobs before the worker, and
 * the worker before the providers that it calls.
 */
export function programsOf(config: Config, addresses: PartAddresses, data_dir: string): Program[][] {
  const env = environmentOf(config, addresses)
  const emulators = emulatorsOf(config).map((name): Program => {
    const { provider_name, file, reads } = EMULATORS[name]
    return {
      name: `${provider_name} emulator`,
      file: pathOf(file),
      args: emulatorArgs(name, config, (listener) => addresses.emulators.get(listener)!.port, data_dir),
      env: filterEnvironment(env, (variable) => reads.includes(variable)),
    }
  })
  const part = (
    name: string,
    process: ProcessName & keyof typeof FILES,
    own: Record<string, string> = {},
  ): Program => ({
    name,
    file: pathOf(FILES[process]),
    args: [],
    env: {
      ...filterEnvironment(env, (variable) => isReadBy(variable, process)),
      ...secretFilesOf(config, process),
      ...own,
    },
  })
  const placeholders = Object.entries(PLACEHOLDERS)
    .filter(([variable]) => env[variable] !== '')
    .flatMap(([variable, value]) => [
      [variable, value],
      [fileVariableOf(variable as keyof typeof PLACEHOLDERS), ''],
    ])
  return [
    [
      part('dashboard', 'dashboard', {
        ...Object.fromEntries(placeholders),
        API_URL: config.API_URL ?? addresses.api.url,
        EMULATED: emulatorsOf(config)
          .map((name) => EMULATORS[name].provider_name)
          .join(),
      }),
    ],
    [part('api', 'api', Object.fromEntries(placeholders)), part('webhooks host', 'webhooks')],
    [part('worker', 'worker')],
    emulators,
  ]
}

/** All variables of this configuration. Each program gets only those that it reads. */
function environmentOf(config: Config, addresses: PartAddresses): Record<string, string> {
  return {
    ...emptyIfUnset({
      DATABASE_URL: config.DATABASE_URL,
      QUEUE_DATABASE_URL: config.QUEUE_DATABASE_URL,
      REDIS_URL: config.REDIS_URL,
      ENCRYPTION_KEY: config.ENCRYPTION_KEY,
      ADDRESS_KEY: config.ADDRESS_KEY,
      EMAIL_WEBHOOK_SECRET: config.EMAIL_WEBHOOK_SECRET,
      STRIPE_WEBHOOK_SECRET: config.STRIPE_WEBHOOK_SECRET,
      STRIPE_SECRET_KEY: config.STRIPE_SECRET_KEY ?? 'sk_test_unset',
      STRIPE_API_BASE: config.STRIPE_API_BASE,
      STRIPE_TEST_SECRET_KEY: config.STRIPE_TEST_SECRET_KEY,
      STRIPE_TEST_WEBHOOK_SECRET: config.STRIPE_TEST_WEBHOOK_SECRET,
      STRIPE_TEST_API_BASE: config.STRIPE_TEST_API_BASE,
      AI_BASE_URL: config.AI_BASE_URL,
      AI_API_KEY: config.AI_API_KEY,
      TWILIO_ACCOUNT_SID: config.TWILIO_ACCOUNT_SID,
      TWILIO_AUTH_TOKEN: config.TWILIO_AUTH_TOKEN,
      TWILIO_FROM: config.TWILIO_FROM,
      TWILIO_API_BASE: config.TWILIO_API_BASE,
      SMTP_URL: config.SMTP_URL,
      EMAIL_FROM: config.EMAIL_FROM,
      SYSTEM_EMAIL_FROM: config.SYSTEM_EMAIL_FROM,
      ...emulatorVariables(config, (name) => addresses.emulators.get(name)!.url),
      DASHBOARD_URL: config.DASHBOARD_URL,
      API_URL: config.API_URL,
      WEBHOOKS_URL: config.WEBHOOKS_URL,
      WEBHOOKS_ALLOW_CIDRS: allowedNetworks(config).join(),
    }),
    QUEUE: config.QUEUE ?? (config.REDIS_URL === undefined ? 'postgres' : 'redis'),
    API_PORT: String(addresses.api.port),
    WEBHOOKS_PORT: String(addresses.webhooks.port),
    DASHBOARD_PORT: String(addresses.dashboard.port),
    // The metrics of a part are local only: `npm start` serves the metrics of all parts at one address.
    METRICS_HOST: '127.0.0.1',
    METRICS_PORT: '0',
    // The supervisor has its own shutdown delay before it stops its parts.
    SHUTDOWN_DELAY_S: '0',
    // Less than the time in which the supervisor itself closes.
    SHUTDOWN_TIMEOUT_S: '10',
  }
}

/** A part reads secrets from the files of the supervisor itself, so that it can read them again. */
function secretFilesOf({ secret_files }: Config, process: ProcessName): Record<string, string> {
  const names = SECRET_NAMES.filter((name) => secret_files[name] !== undefined && isReadBy(name, process))
  return Object.fromEntries(
    names.flatMap((name) => [
      [name, ''],
      [fileVariableOf(name), secret_files[name]!],
    ]),
  )
}

/** Banner line about private networks that may receive events. */
export function networkNotes(config: Config): string[] {
  const networks = allowedNetworks(config)
  return networks.length > 0
    ? [`Events       sent to public addresses, and to ${networks.join(', ')} (WEBHOOKS_ALLOW_CIDRS)`]
    : []
}

/** Private networks that may receive events. Default: this machine, or none in production. */
function allowedNetworks({ WEBHOOKS_ALLOW_CIDRS, NODE_ENV, ALLOW_EMULATORS }: Config): string[] {
  const is_production = NODE_ENV === 'production' && !ALLOW_EMULATORS
  return WEBHOOKS_ALLOW_CIDRS.length > 0 || is_production ? WEBHOOKS_ALLOW_CIDRS : ['127.0.0.0/8', '::1/128']
}

function pathOf(file: string): string {
  return fileURLToPath(new URL(`../../${file}`, import.meta.url))
}

/**
 * Empties every variable that the part does not read, even inherited variables, so that no part sees the secrets of
 * another.
 */
function filterEnvironment(
  env: Record<string, string>,
  reads: (variable: VariableName) => boolean,
): Record<string, string> {
  const others = VARIABLE_NAMES.filter((variable) => !reads(variable))
  const emptied = [...others, ...SECRET_NAMES.map(fileVariableOf)]
  return { ...env, ...Object.fromEntries(emptied.map((variable) => [variable, ''])) }
}

/** Undefined becomes empty, which counts as unset and overrides `.env`. */
function emptyIfUnset(values: Record<string, string | undefined>): Record<string, string> {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, value ?? '']))
}

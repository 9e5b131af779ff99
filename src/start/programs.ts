// The programs that `npm start` runs, each as it runs alone, with its configuration in the environment.
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Config } from '#core/config.ts'
import { isReadBy, VARIABLE_NAMES, type ProcessName, type VariableName } from '#core/config/variables.ts'
import { EVENT_TYPES } from '#providers/stripe/news.ts'
import type { PartPlaces } from './places.ts'

export type Program = {
  /** As people call it: the worker. */
  name: string
  file: string
  args: string[]
  /** Beside what this process was given. */
  env: Record<string, string>
}

/** By their folders in `src`. */
const FILES = {
  api: 'src/api/main.ts',
  webhooks: 'src/webhooks/main.ts',
  worker: 'src/workers/main.ts',
  emulator: 'src/emulators/stripe/main.ts',
} as const
const EMULATOR_KEY = 'sk_test_emulator'

/** Whether the Stripe emulator is used: it is, unless a key or another server is configured. */
export function emulates({ STRIPE_API_BASE, STRIPE_SECRET_KEY }: Config): boolean {
  return STRIPE_API_BASE === undefined && STRIPE_SECRET_KEY === undefined
}

/** Whether this command line is of one of the programs, also where another checkout has started it. */
export function isProgram(command: string): boolean {
  return Object.values(FILES).some((file) => command.includes(`/${file}`))
}

/**
 * The programs of this configuration, by their order of going: what asks for work ends before what does it, and that
 * before what it calls.
 */
export function programsOf(config: Config, places: PartPlaces, data_dir: string): Program[][] {
  const emulated = emulates(config)
  const env = {
    ...given({
      DATABASE_URL: config.DATABASE_URL,
      REDIS_URL: config.REDIS_URL,
      ENCRYPTION_KEY: config.ENCRYPTION_KEY,
      STRIPE_WEBHOOK_SECRET: config.STRIPE_WEBHOOK_SECRET,
      STRIPE_SECRET_KEY: emulated ? EMULATOR_KEY : (config.STRIPE_SECRET_KEY ?? 'sk_test_unset'),
      STRIPE_API_BASE: emulated ? places.emulator.url : config.STRIPE_API_BASE,
      API_URL: config.API_URL,
      WEBHOOKS_URL: config.WEBHOOKS_URL,
    }),
    QUEUE: config.QUEUE ?? (config.REDIS_URL === undefined ? 'postgres' : 'redis'),
    API_PORT: String(places.api.port),
    WEBHOOKS_PORT: String(places.webhooks.port),
    // Only for us: one address tells of all of them.
    METRICS_HOST: '127.0.0.1',
    METRICS_PORT: '0',
  }
  const emulator = {
    name: 'Stripe emulator',
    file: pathOf(FILES.emulator),
    args: [
      `--port=${places.emulator.port}`,
      `--api-key=${EMULATOR_KEY}`,
      `--webhook-url=${config.WEBHOOKS_URL}/stripe`,
      `--data-dir=${join(data_dir, 'stripe')}`,
      ...(config.EMULATOR_EVENTS === 'needed' ? [`--webhook-events=${EVENT_TYPES.join()}`] : []),
    ],
    // It signs what it sends, and reads no other variable.
    env: onlyRead(env, (variable) => variable === 'STRIPE_WEBHOOK_SECRET'),
  }
  const part = (name: string, process: ProcessName & keyof typeof FILES): Program => ({
    name,
    file: pathOf(FILES[process]),
    args: [],
    env: onlyRead(env, (variable) => isReadBy(variable, process)),
  })
  return [
    [part('api', 'api'), part('webhooks host', 'webhooks')],
    [part('worker', 'worker')],
    emulated ? [emulator] : [],
  ]
}

function pathOf(file: string): string {
  return fileURLToPath(new URL(`../../${file}`, import.meta.url))
}

/** A part is given what it reads and nothing else, also of what this process was given: its secrets are its own. */
function onlyRead(
  env: Record<string, string>,
  reads: (variable: VariableName) => boolean,
): Record<string, string> {
  const others = VARIABLE_NAMES.filter((variable) => !reads(variable))
  return { ...env, ...Object.fromEntries(others.map((variable) => [variable, ''])) }
}

/** What is undefined is empty, which counts as unset, also where `.env` has a value. */
function given(values: Record<string, string | undefined>): Record<string, string> {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, value ?? '']))
}

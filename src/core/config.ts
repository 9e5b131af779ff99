// Configuration: the environment, parsed once, refused with the variable's name and an example.
import { readFileSync } from 'node:fs'
import { parseEnv } from 'node:util'
import { z } from 'zod'
import { parseRedisUrl } from './redis-url.ts'

const anyPort = z.coerce.number().int().min(0).max(65535)
const port = (standard: number) => anyPort.default(standard)
const baseUrl = z.url({ protocol: /^https?$/ }).transform((url) => url.replace(/\/+$/, ''))
const count = (standard: number, max = 1_000_000) =>
  z.coerce.number().int().positive().max(max).default(standard)
const seconds = (standard: number) => z.coerce.number().int().min(0).max(1_000_000).default(standard)

const AREAS = ['customers', 'payments'] as const
export type Area = (typeof AREAS)[number]

/** What is kept for how many days, and for how many unless said otherwise. */
const RETENTION_DAYS = { jobs: 90, notifications: 90, events: 400 }
/** So long providers repeat themselves and keys are remembered. */
const LEAST_RETENTION_DAYS = 31
type RetentionDays = typeof RETENTION_DAYS

function parseRetention(text: string, context: z.RefinementCtx): RetentionDays {
  const days: RetentionDays = { ...RETENTION_DAYS }
  for (const part of list(text)) {
    const [, kind = '', number] = /^(\w+):(\d{1,5})$/.exec(part) ?? []
    if (!isKind(kind) || Number(number) < LEAST_RETENTION_DAYS)
      context.addIssue({
        code: 'custom',
        message: `must be kind:days pairs separated by commas, at least ${LEAST_RETENTION_DAYS} days each; the kinds are ${Object.keys(RETENTION_DAYS).join(', ')}`,
      })
    else days[kind] = Number(number)
  }
  return days
}

function isKind(kind: string): kind is keyof RetentionDays {
  return Object.hasOwn(RETENTION_DAYS, kind)
}

/** Every variable: what it must be, what it is for, and an example for the message that refuses another value. */
const VARIABLES = {
  NODE_ENV: [z.enum(['development', 'test', 'production']).default('development'), 'production'],
  HOST: [z.string().min(1).default('127.0.0.1'), '0.0.0.0'],
  API_PORT: [port(3000), '3000'],
  WEBHOOKS_PORT: [port(3001), '3001'],
  METRICS_HOST: [z.string().min(1).default('127.0.0.1'), '127.0.0.1'],
  METRICS_PORT: [anyPort.optional(), '9464'],
  EMULATOR_PORT: [port(3010), '3010'],
  API_URL: [baseUrl.optional(), 'https://api.example.com'],
  WEBHOOKS_URL: [baseUrl.optional(), 'https://hooks.example.com'],
  DATABASE_URL: [
    z.url({ protocol: /^postgres(ql)?$/ }).optional(),
    'postgres://sluice:secret@127.0.0.1:5432/sluice',
  ],
  DATABASE_POOL: [count(10, 500), '10'],
  REDIS_URL: [
    z
      .string()
      .refine((text) => parseRedisUrl(text) !== undefined, {
        error:
          'must be redis://host:port, redis+sentinel://host:port,.../primary or redis+cluster://host:port,...',
      })
      .optional(),
    'redis://127.0.0.1:6379',
  ],
  QUEUE: [z.enum(['redis', 'postgres']).optional(), 'redis'],
  QUEUES: [z.string().default(''), 'payments,notifications'],
  WORKER_CONCURRENCY: [count(100, 5000), '100'],
  TENANT_WINDOW: [count(256), '256'],
  STRIPE_SECRET_KEY: [z.string().min(8).optional(), 'sk_test_...'],
  STRIPE_WEBHOOK_SECRET: [z.string().startsWith('whsec_').optional(), 'whsec_new,whsec_old'],
  STRIPE_API_BASE: [baseUrl.optional(), 'https://api.stripe.com'],
  ENCRYPTION_KEY: [
    z
      .string()
      .regex(/^[A-Za-z0-9+/]{43}=(\s*,\s*[A-Za-z0-9+/]{43}=)*$/, {
        error: 'must be 32 bytes, base64; several, the newest first, separated by commas',
      })
      .optional(),
    '$(openssl rand -base64 32)',
  ],
  AUDIT_EVERY_S: [count(3600), '3600'],
  RECONCILE_EVERY_S: [count(10), '10'],
  RECONCILE_AFTER_S: [seconds(300), '300'],
  RETENTION_DAYS: [z.string().default('').transform(parseRetention), 'jobs:90,notifications:90,events:400'],
  REQUIRES_ACTION_TTL_S: [
    z.coerce
      .number()
      .int()
      .min(60)
      .max(30 * 24 * 3600)
      .default(24 * 3600),
    '86400',
  ],
  REQUEST_TIMEOUT_MS: [count(30_000), '30000'],
  RATE_LIMIT_RPS: [count(500), '500'],
  RATE_LIMIT_BURST: [count(2000), '2000'],
  DISABLED_AREAS: [z.string().default(''), 'payments'],
  ALLOW_EMULATORS: [z.stringbool().default(false), 'true'],
  LOG_LEVEL: [z.enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']).default('info'), 'info'],
  DATA_DIR: [z.string().min(1).default('.data'), '.data'],
} as const satisfies Record<string, readonly [z.ZodType, string]>

type Variables = { -readonly [Name in keyof typeof VARIABLES]: z.output<(typeof VARIABLES)[Name][0]> }
export type Config = Variables & { areas: Set<Area> }

/** Thrown by `loadConfig`; the message is for the operator and names each variable at fault. */
export class ConfigError extends Error {}

/** The configuration from `env`, with a `.env` file in the working directory filling what is unset. */
export function loadConfig(env: NodeJS.ProcessEnv = process.env): Config {
  const given: Record<string, string | undefined> = { ...dotenv(), ...env }
  const problems: string[] = []
  const values: Record<string, unknown> = {}
  for (const [name, [schema, example]] of Object.entries(VARIABLES)) {
    const text = given[name] === '' ? undefined : given[name]
    const parsed = schema.safeParse(text)
    if (parsed.success) values[name] = parsed.data
    else problems.push(`  ${name}: ${parsed.error.issues[0]!.message}. Example: ${name}=${example}`)
  }
  const variables = values as Variables
  const disabled = list(variables.DISABLED_AREAS ?? '')
  for (const area of disabled) {
    if (!(AREAS as readonly string[]).includes(area))
      problems.push(`  DISABLED_AREAS: no area is called "${area}"; there are ${AREAS.join(', ')}`)
  }
  if (problems.length > 0) throw new ConfigError(`The configuration is not usable:\n${problems.join('\n')}`)
  return { ...variables, areas: new Set(AREAS.filter((area) => !disabled.includes(area))) }
}

/**
 * The value of a variable that a process run by itself cannot do without.
 */
export function need<Name extends keyof Variables>(config: Config, name: Name): NonNullable<Variables[Name]> {
  const value = config[name]
  if (value === undefined || value === null) {
    throw new ConfigError(`${name} is not set. Example: ${name}=${VARIABLES[name][1]}`)
  }
  return value
}

/** Where bells are rung: Redis when it is named, PostgreSQL with `QUEUE=postgres` or, outside production, without a Redis. */
export function queueConfig(config: Config): { redis_url: string | null; database_url: string } {
  const database_url = need(config, 'DATABASE_URL')
  const redis =
    config.QUEUE === 'redis' ||
    (config.QUEUE === undefined && (config.NODE_ENV === 'production' || config.REDIS_URL !== undefined))
  return { redis_url: redis ? need(config, 'REDIS_URL') : null, database_url }
}

/** The parts of a comma-separated variable. */
export function list(text: string): string[] {
  return text
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '')
}

function dotenv(): Record<string, string | undefined> {
  try {
    return parseEnv(readFileSync('.env', 'utf8'))
  } catch {
    return {}
  }
}

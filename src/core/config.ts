// Configuration: the environment, parsed once. An invalid value is refused with the variable's name and an example.
import { readFileSync } from 'node:fs'
import { parseEnv } from 'node:util'
import type { z } from 'zod'
import { bareAddress } from './addresses.ts'
import { problemOfDashboardUrl } from './config/dashboard.ts'
import { list } from './config/list.ts'
import { misspellings } from './config/misspelt.ts'
import { parseVariable } from './config/parse.ts'
import { isOptionalForQueues, requiredVariables } from './config/readers.ts'
import type { ProcessName } from './config/row.ts'
import { invalidSecret, readSecretFiles, type SecretFiles } from './config/secret-files.ts'
import { VARIABLE_NAMES, VARIABLES, type VariableName } from './config/variables.ts'
import { impersonates, defaultSystemAddress } from './mail-address.ts'
import { parseDatabaseUrl } from './postgres/address.ts'
import { problemOfAllowedNetwork } from './public-addresses.ts'

type Variables = { -readonly [Name in keyof typeof VARIABLES]: z.output<(typeof VARIABLES)[Name][0]> }
/**
 * `log_sample_rate`: LOG_REQUESTS, or its default, which depends on NODE_ENV. `secret_files`: the secrets that came
 * from files. The values of some change after SIGHUP (`rereadSecrets`), so they are read where they are used.
 */
export type Config = Variables & { log_sample_rate: number; secret_files: SecretFiles }

/** The process cannot start. The message is for the operator: it names each invalid variable and the remedy. */
export class ConfigError extends Error {}

/**
 * Reads the configuration from `env`; a `.env` file in the working directory supplies unset variables. `warn` is
 * called for each name in either that looks like a misspelt variable.
 */
export function loadConfig(
  env: NodeJS.ProcessEnv = process.env,
  warn: (text: string) => void = (text) => void process.stderr.write(`${text}\n`),
): Config {
  const text = dotenv()
  const file = parseEnv(text)
  for (const warning of misspellings(file, { dotenv: text, environment: env })) warn(warning)
  const { environment, files, problems } = readSecretFiles({ ...file, ...env })
  const values: Record<string, unknown> = {}
  for (const name of VARIABLE_NAMES) {
    const value = environment[name] === '' ? undefined : environment[name]
    const parsed = parseVariable(name, value)
    if ('data' in parsed) values[name] = parsed.data
    else {
      const file = files[name]
      problems.push(
        file === undefined
          ? invalidVariable(name, parsed.problem)
          : `  ${invalidSecret(name, file, value ?? '', parsed.problem)}`,
      )
    }
  }
  if (values.NODE_ENV === 'production') {
    const { WEBHOOKS_ALLOW_CIDRS = [], DASHBOARD_URL } = values as Partial<Variables>
    for (const network of WEBHOOKS_ALLOW_CIDRS) {
      const problem = problemOfAllowedNetwork(network)
      if (problem !== null) problems.push(invalidVariable('WEBHOOKS_ALLOW_CIDRS', problem))
    }
    const url_problem = DASHBOARD_URL === undefined ? null : problemOfDashboardUrl(DASHBOARD_URL)
    if (url_problem !== null) problems.push(invalidVariable('DASHBOARD_URL', url_problem))
  }
  const { EMAIL_FROM, SYSTEM_EMAIL_FROM } = values as Partial<Variables>
  if (EMAIL_FROM !== undefined) {
    const system = SYSTEM_EMAIL_FROM ?? defaultSystemAddress(EMAIL_FROM)
    values.SYSTEM_EMAIL_FROM = system
    if (impersonates(EMAIL_FROM, system))
      problems.push(
        SYSTEM_EMAIL_FROM === undefined
          ? invalidVariable(
              'EMAIL_FROM',
              `must not be ${bareAddress(system)}, the sender of the system's own email, unless SYSTEM_EMAIL_FROM names another address`,
            )
          : invalidVariable('SYSTEM_EMAIL_FROM', 'must differ from EMAIL_FROM, which tenants use'),
      )
  }
  problems.push(...problemsOfTestMode(values))
  if (problems.length > 0) throw new ConfigError(`The configuration is invalid:\n${problems.join('\n')}`)
  const variables = values as Variables
  return {
    ...variables,
    secret_files: files,
    log_sample_rate: variables.LOG_REQUESTS ?? (variables.NODE_ENV === 'production' ? 0.01 : 1),
  }
}

/** With one key or one secret for both modes, nothing would keep them apart. */
function problemsOfTestMode({
  STRIPE_SECRET_KEY,
  STRIPE_TEST_SECRET_KEY,
  STRIPE_WEBHOOK_SECRET = '',
  STRIPE_TEST_WEBHOOK_SECRET = '',
}: Partial<Variables>): string[] {
  const shares_key = STRIPE_TEST_SECRET_KEY !== undefined && STRIPE_TEST_SECRET_KEY === STRIPE_SECRET_KEY
  const live_secrets = list(STRIPE_WEBHOOK_SECRET)
  const shares_secret = list(STRIPE_TEST_WEBHOOK_SECRET).some((secret) => live_secrets.includes(secret))
  return [
    ...(shares_key
      ? [invalidVariable('STRIPE_TEST_SECRET_KEY', 'must be another key than STRIPE_SECRET_KEY')]
      : []),
    ...(shares_secret
      ? [invalidVariable('STRIPE_TEST_WEBHOOK_SECRET', 'must share no secret with STRIPE_WEBHOOK_SECRET')]
      : []),
  ]
}

/** The value of a variable that this process needs. Throws ConfigError if it is not set. */
export function requireVariable<Name extends VariableName>(
  config: Config,
  name: Name,
): NonNullable<Variables[Name]> {
  const value = config[name]
  if (value === undefined || value === null) throw new ConfigError(missingVariable(name))
  return value
}

/** Throws one ConfigError that names every required variable that is not set. */
export function requireVariables(config: Config, process: ProcessName): void {
  const missing = requiredVariables(process).filter(
    (name) =>
      config[name] === undefined && !(process === 'worker' && isOptionalForQueues(name, config.QUEUES)),
  )
  if (usesRedis(config) && config.REDIS_URL === undefined) missing.push('REDIS_URL')
  if (missing.length > 0) throw new ConfigError(missing.map(missingVariable).join('\n'))
}

function invalidVariable(name: VariableName, problem: string): string {
  return `  ${name}: ${problem}. Example: ${name}=${VARIABLES[name][1]}`
}

function missingVariable(name: VariableName): string {
  return `${name} is not set. Example: ${name}=${VARIABLES[name][1]}`
}

/**
 * Whether BullMQ runs on Redis; otherwise it runs on PostgreSQL. `QUEUE` decides. If `QUEUE` is unset, BullMQ runs on
 * Redis in production, or if REDIS_URL is set.
 */
export function usesRedis({ QUEUE, NODE_ENV, REDIS_URL }: Config): boolean {
  return QUEUE === 'redis' || (QUEUE === undefined && (NODE_ENV === 'production' || REDIS_URL !== undefined))
}

/** Whether Redis records accepted requests. */
export function recordsAccepted(config: Config): boolean {
  return usesRedis(config) && config.ACCEPTED_MAX > 0
}

/**
 * The backend of BullMQ. Throws ConfigError if it is not configured, or if PostgreSQL is only reached through
 * PgBouncer.
 */
export function queueConfig(config: Config): {
  redis_url: string | null
  database_url: string
  accepted_max: number
} {
  const database_url = config.QUEUE_DATABASE_URL ?? requireVariable(config, 'DATABASE_URL')
  const accepted_max = config.ACCEPTED_MAX
  if (usesRedis(config))
    return { redis_url: requireVariable(config, 'REDIS_URL'), database_url, accepted_max }
  if (parseDatabaseUrl(database_url).pgbouncer) {
    const problem = 'BullMQ on PostgreSQL listens in sessions of its own, and PgBouncer shares sessions'
    throw new ConfigError(
      config.QUEUE_DATABASE_URL === undefined
        ? `QUEUE: ${problem}. Set QUEUE_DATABASE_URL to the address of the same database without PgBouncer, or QUEUE=redis.`
        : `QUEUE_DATABASE_URL: ${problem}. Name the address of PostgreSQL itself, without pgbouncer=true.`,
    )
  }
  return { redis_url: null, database_url, accepted_max }
}

/** The text of `.env`; empty if there is no such file. */
function dotenv(): string {
  try {
    return readFileSync('.env', 'utf8')
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') return ''
    throw new ConfigError(
      `.env cannot be read (${code ?? message}). Make it a file that this user may read, or remove it.`,
    )
  }
}

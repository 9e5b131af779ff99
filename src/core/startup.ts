// Checks before a process starts: each problem is reported in one line with its remedy.
import { createServer } from 'node:net'
import { networkInterfaces } from 'node:os'
import postgres from 'postgres'
import { ConfigError, requireVariable, type Config } from './config.ts'
import { METRICS_PORTS } from './config/variables.ts'
import { connectDatabase } from './pool.ts'
import { databaseCode, databaseError, isTemporary } from './db.ts'
import { problemOfDatabase } from './migrate.ts'
import { parseDatabaseUrl } from './postgres/address.ts'
import { problemOfSettings, problemOfStandby } from './postgres/settings.ts'

/** The listening address of a process, and the variables that set it. */
export type ListenAddress = {
  variable: 'API_PORT' | 'WEBHOOKS_PORT' | 'DASHBOARD_PORT' | 'METRICS_PORT' | EmulatorPort
  port: number
  host_variable: 'HOST' | 'METRICS_HOST'
  host: string
}

/** The port variables of emulators. */
export type EmulatorPort =
  | 'EMULATOR_PORT'
  | 'TWILIO_EMULATOR_PORT'
  | 'SMTP_EMULATOR_PORT'
  | 'INBOX_PORT'
  | 'AI_EMULATOR_PORT'

/** Emulators are never reachable from other machines: any client can control them. */
const EMULATOR_HOST = '127.0.0.1'

/** The listening address of an emulator of `npm start`. */
export function emulatorAddress(config: Config, variable: EmulatorPort): ListenAddress {
  return { variable, port: config[variable], host_variable: 'HOST', host: EMULATOR_HOST }
}

/** The listening addresses of a process. */
export function listenAddresses(
  { HOST, METRICS_HOST, ...ports }: Config,
  process: keyof typeof METRICS_PORTS = 'start',
): Record<'api' | 'webhooks' | 'dashboard' | 'metrics', ListenAddress> {
  const common = { host_variable: 'HOST', host: HOST } as const
  return {
    api: { variable: 'API_PORT', port: ports.API_PORT, ...common },
    webhooks: { variable: 'WEBHOOKS_PORT', port: ports.WEBHOOKS_PORT, ...common },
    dashboard: { variable: 'DASHBOARD_PORT', port: ports.DASHBOARD_PORT, ...common },
    metrics: {
      variable: 'METRICS_PORT',
      port: ports.METRICS_PORT ?? METRICS_PORTS[process],
      host_variable: 'METRICS_HOST',
      host: METRICS_HOST,
    },
  }
}

/** The URL at which providers reach the webhooks host. */
export function webhooksUrl({ WEBHOOKS_URL, HOST, WEBHOOKS_PORT }: Config): string {
  return WEBHOOKS_URL ?? `http://${HOST}:${WEBHOOKS_PORT}`
}

/** Throws one ConfigError that names every address that cannot be used. */
export async function checkAddresses(addresses: ListenAddress[]): Promise<void> {
  const problems: string[] = []
  for (const [index, address] of addresses.entries()) {
    const conflict = addresses.slice(0, index).find((other) => overlaps(address, other))
    const error = conflict === undefined ? await tryListening(address) : undefined
    const problem = error && portError(error, address)
    if (conflict !== undefined)
      problems.push(
        `${address.variable}: port ${address.port} is also used by ${conflict.variable}. ${chooseAnotherPort(address)}`,
      )
    else if (problem instanceof ConfigError) problems.push(problem.message)
  }
  if (problems.length > 0) throw new ConfigError([...new Set(problems)].join('\n'))
}

/**
 * The origin of links to a server. `host`: its configured host. `listening`: the URL on which it listens. Empty if the
 * server listens on all addresses, so that links are relative to the page.
 */
export function originOfLinks(host: string, listening: string): string {
  return ['0.0.0.0', '::'].includes(host) ? '' : listening
}

/** Turns a listen error into a message for the operator. Other errors are returned unchanged. */
export function portError(error: unknown, address: ListenAddress): unknown {
  const { variable, port, host_variable, host } = address
  const code = databaseCode(error)
  if (code === 'EADDRINUSE')
    return new ConfigError(`${variable}: port ${port} is in use. ${chooseAnotherPort(address)}`)
  if (code === 'EACCES')
    return new ConfigError(`${variable}: port ${port} may not be used by this user. Choose one above 1023.`)
  if (code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND' || code === 'EAI_AGAIN' || code === 'EINVAL') {
    const addresses = Object.values(networkInterfaces()).flatMap((all) => all?.map(({ address }) => address))
    return new ConfigError(
      `${host_variable}: ${host} is not an address of this machine. The machine has ${addresses.join(', ')}; 0.0.0.0 means all addresses. Example: ${host_variable}=127.0.0.1`,
    )
  }
  return error
}

/** Listens at an address and returns its URL. Throws ConfigError if the address cannot be used. */
export async function listenAt(
  app: { listen: (at: { host: string; port: number }) => Promise<string> },
  address: ListenAddress,
): Promise<string> {
  try {
    return await app.listen({ host: address.host, port: address.port })
  } catch (error) {
    throw portError(error, address)
  }
}

/**
 * Throws if the database cannot be used: it is missing, refuses the password, has a certificate that is not trusted, is
 * not migrated for this version, its user is that of another process, or, behind PgBouncer, the user lacks settings. A
 * database that does not answer may still be starting: in this case a warning is logged, and the process is not ready
 * until the database answers.
 */
export async function checkDatabase(
  config: Config,
  process: string,
  log: { warn: (message: string) => void },
): Promise<void> {
  const url = requireVariable(config, 'DATABASE_URL')
  const sql = connectDatabase(url, { max: 1, application_name: 'sluice-start' })
  try {
    const problem = await problemOfDatabase(sql, { allow_newer: config.ALLOW_NEWER_DATABASE, process })
    if (problem !== undefined) throw new ConfigError(problem)
    const settings_problem = parseDatabaseUrl(url).pgbouncer ? await problemOfSettings(sql) : undefined
    if (settings_problem !== undefined) throw new ConfigError(settings_problem)
    const standby_problem = config.SYNCHRONOUS_STANDBY ? await problemOfStandby(sql) : undefined
    if (standby_problem !== undefined) throw new ConfigError(standby_problem)
  } catch (error) {
    const explained = databaseError(error, url)
    if (!isTemporary(error) || !(explained instanceof ConfigError)) throw explained
    log.warn(`${explained.message} The connection is retried until PostgreSQL answers.`)
  } finally {
    await sql.end({ timeout: 1 })
  }
}

/** The text for the operator when an error ends a process or command: one line, or the stack of an unexpected error. */
export function errorText(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const { code, path } = error as NodeJS.ErrnoException
  if (error instanceof ConfigError) return error.message
  if (error instanceof postgres.PostgresError) return `PostgreSQL refused: ${error.message} (${error.code}).`
  if (code === 'ERR_PARSE_ARGS_UNKNOWN_OPTION')
    return `There is no option ${/'(-[^' ]*)/.exec(error.message)?.[1] ?? ''}. See --help.`
  if (code === 'ERR_PARSE_ARGS_INVALID_OPTION_VALUE') return `${problemOfValue(error.message)} See --help.`
  if (code?.startsWith('ERR_PARSE_ARGS')) return `${error.message.split('\n')[0]}. See --help.`
  if (code !== undefined && path !== undefined) return error.message
  // Some libraries set an empty stack.
  return error.stack?.includes(error.message) === true ? error.stack : String(error)
}

/** Describes the problem of an option's value. `parser_message`: the error message of `parseArgs`. */
function problemOfValue(parser_message: string): string {
  const option = /'(?:-\w, )?(-[^' ]+)/.exec(parser_message)?.[1] ?? 'An option'
  if (parser_message.includes('does not take')) return `${option} takes no value.`
  const hint = parser_message.includes('ambiguous')
    ? ` One that begins with a dash is written ${option}=-x.`
    : ''
  return `${option} needs a value.${hint}`
}

function overlaps(one: ListenAddress, other: ListenAddress): boolean {
  const all = new Set(['0.0.0.0', '::'])
  return (
    one.port !== 0 &&
    one.port === other.port &&
    (one.host === other.host || all.has(one.host) || all.has(other.host))
  )
}

async function tryListening({ host, port }: ListenAddress): Promise<unknown> {
  const probe = createServer()
  return await new Promise((resolve) => {
    probe.once('error', resolve)
    probe.listen({ host, port, exclusive: true }, () => probe.close(() => resolve(undefined)))
  })
}

function chooseAnotherPort({ variable }: ListenAddress): string {
  return `Choose another, or 0 for a free one: ${variable}=0`
}

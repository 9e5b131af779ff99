// Parses the URL of a database: PostgreSQL's connection URI with several hosts, TLS and PgBouncer.
import { accessSync, constants } from 'node:fs'

const SSL_MODES = ['disable', 'prefer', 'require', 'verify-ca', 'verify-full'] as const
const SESSIONS = ['any', 'read-write', 'read-only', 'primary', 'standby', 'prefer-standby'] as const
export type SessionKind = (typeof SESSIONS)[number]

/** `host`: a name, an address, or the folder of a Unix socket, which begins with a slash. */
export type DatabaseServer = { host: string; port: number }

export type DatabaseAddress = {
  servers: [DatabaseServer, ...DatabaseServer[]]
  user?: string | undefined
  password?: string | undefined
  database?: string | undefined
  /** Which server is used: libpq's `target_session_attrs`. */
  session: SessionKind
  tls: {
    mode: (typeof SSL_MODES)[number]
    /** Files, and `system` for the CAs of the operating system. */
    sslrootcert?: string | undefined
    sslcert?: string | undefined
    sslkey?: string | undefined
  }
  /** Whether the servers are PgBouncers, which may give each transaction another session. */
  pgbouncer: boolean
  /** The time limit of a connection to one server. */
  connect_timeout_ms: number
  /** Further parameters: settings of the session. */
  settings: Record<string, string>
}

/** Parameters of libpq that concern the connection, however they are spelt: none is a setting of a session. */
const CONNECTION_PARAMETERS = /^(?:ssl|gss|require_?auth|user$|password$|passfile$|dbname$|service|krb)/i
const ADDRESS_PATTERN =
  /^postgres(?:ql)?:\/\/(?:(?<user>[^:@/?#]*)(?::(?<password>[^/?#]*))?@)?(?<hosts>[^@/?#]*)(?:\/(?<database>[^/@?#]*))?(?:\?(?<query>[^#]*))?$/
const HOST = /^(?<host>\[[0-9a-fA-F:.]+\]|[^:[\]]*)(?::(?<port>\d{0,5}))?$/
const DEFAULT_PORT = 5432
const DEFAULT_TIMEOUT_S = { one: 5, several: 2 }
const MAX_TIMEOUT_S = 60

/** Parses the URL of a database. Throws if `problemOfDatabaseUrl` finds a problem in it. */
export function parseDatabaseUrl(url: string): DatabaseAddress {
  const address = parse(url)
  if (typeof address === 'string') throw new Error(`The address of the database ${address}`)
  return address
}

/** What is wrong with the URL of a database, or undefined. The text contains no part of the URL that may be secret. */
export function problemOfDatabaseUrl(url: string): string | undefined {
  const address = parse(url)
  if (typeof address === 'string') return address
  const { sslrootcert, sslcert, sslkey } = address.tls
  for (const [name, file] of Object.entries({ sslrootcert, sslcert, sslkey })) {
    if (file === undefined || (name === 'sslrootcert' && file === 'system')) continue
    const problem = problemOfFile(file)
    if (problem !== undefined) return `names a file that cannot be read: ${name}=${file} (${problem})`
  }
  return undefined
}

/** The servers of an address, for messages: `h1:5432 or h2:5432`. */
export function serverNames({ servers }: Pick<DatabaseAddress, 'servers'>): string {
  return servers.map(serverName).join(' or ')
}

/** The address of a server, for messages: `h1:5432`. */
export function serverName({ host, port }: DatabaseServer): string {
  return `${host.includes(':') ? `[${host}]` : host}:${port}`
}

function parse(url: string): DatabaseAddress | string {
  const groups = ADDRESS_PATTERN.exec(url)?.groups
  if (groups === undefined) return 'must be postgres://user:password@host:port/database'
  let parts: Record<string, string | undefined>
  try {
    const { user, password, hosts, database } = groups
    parts = Object.fromEntries(
      Object.entries({ user, password, hosts, database }).map(([name, text]) => [
        name,
        text ? decodeURIComponent(text) : undefined,
      ]),
    )
  } catch {
    return 'must be percent-encoded: % is written %25'
  }
  const query = new URLSearchParams(groups['query'] ?? '')
  const parameters = new Map(query)
  if (parameters.size < query.size) return 'must not have a parameter twice'
  const take = (name: string) => {
    const value = parameters.get(name)
    parameters.delete(name)
    return value === '' ? undefined : value
  }
  const servers = parseServers(take('host') ?? parts['hosts'] ?? '', take('port'))
  if (typeof servers === 'string') return servers
  const several = servers.length > 1
  // JDBC has `ssl=true`, and some drivers `ssl=<sslmode>`.
  const ssl = take('ssl')
  const sslmode = take('sslmode')
  if (ssl !== undefined && sslmode !== undefined) return 'must have sslmode or ssl, not both'
  const sslrootcert = take('sslrootcert')
  const mode =
    sslmode ?? (ssl === 'true' ? 'require' : ssl) ?? (sslrootcert === 'system' ? 'verify-full' : 'prefer')
  if (!isOneOf(SSL_MODES, mode)) return `must have an sslmode that is one of ${SSL_MODES.join(', ')}`
  const session = take('target_session_attrs') ?? (several ? 'read-write' : 'any')
  if (!isOneOf(SESSIONS, session))
    return `must have target_session_attrs that are one of ${SESSIONS.join(', ')}`
  const pgbouncer = take('pgbouncer') ?? 'false'
  if (!isOneOf(['true', 'false'], pgbouncer)) return 'must have pgbouncer=true or pgbouncer=false'
  const timeout_s = Number(
    take('connect_timeout') ?? (several ? DEFAULT_TIMEOUT_S.several : DEFAULT_TIMEOUT_S.one),
  )
  if (!Number.isInteger(timeout_s) || timeout_s < 1 || timeout_s > MAX_TIMEOUT_S)
    return `must have a connect_timeout from 1 to ${MAX_TIMEOUT_S} seconds`
  if (take('channel_binding') === 'require')
    return 'must not have channel_binding=require, which is not supported: sslmode=verify-full protects as well'
  const [sslcert, sslkey] = [take('sslcert'), take('sslkey')]
  if ((sslcert === undefined) !== (sslkey === undefined))
    return 'must have both sslcert and sslkey, or neither'
  if (sslrootcert === 'system' && mode !== 'verify-full')
    return 'must have sslmode=verify-full with sslrootcert=system'
  if (sslrootcert === undefined && mode === 'verify-ca') return 'must have sslrootcert with sslmode=verify-ca'
  // The rest is sent as settings of the session: a misspelt parameter must not turn TLS off, or send a password.
  const misplaced = [...parameters.keys()].find((name) => CONNECTION_PARAMETERS.test(name))
  if (misplaced !== undefined) return `must not have the parameter ${misplaced}, which is not supported`
  return {
    servers,
    user: parts['user'],
    password: parts['password'],
    database: parts['database'],
    session,
    tls: { mode, sslrootcert, sslcert, sslkey },
    pgbouncer: pgbouncer === 'true',
    connect_timeout_ms: timeout_s * 1000,
    settings: Object.fromEntries(parameters),
  }
}

/** `port`: one port for all hosts, or one for each, separated by commas; overrides the ports in `hosts`. */
function parseServers(hosts: string, port: string | undefined): DatabaseAddress['servers'] | string {
  const ports = port?.split(',') ?? []
  const texts = hosts.split(',')
  if (ports.length > 1 && ports.length !== texts.length) return 'must have one port, or one for each host'
  const servers: DatabaseServer[] = []
  for (const [index, text] of texts.entries()) {
    const groups = text.startsWith('/') ? { host: text, port: undefined } : HOST.exec(text)?.groups
    const number = Number((ports[index] ?? ports[0] ?? groups?.['port']) || DEFAULT_PORT)
    if (groups === undefined || !(number >= 1 && number <= 65_535) || (texts.length > 1 && text === ''))
      return 'must have hosts of the form host:port, separated by commas'
    servers.push({ host: groups['host'].replaceAll(/[[\]]/g, '') || 'localhost', port: number })
  }
  const [first, ...rest] = servers
  return [first!, ...rest]
}

function problemOfFile(file: string): string | undefined {
  try {
    accessSync(file, constants.R_OK)
    return undefined
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? String(error)
  }
}

function isOneOf<T extends string>(values: readonly T[], value: string): value is T {
  return (values as readonly string[]).includes(value)
}

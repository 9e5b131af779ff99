// Chooses the server of an address with several hosts, or with `target_session_attrs`. In postgres.js 3.4.9, with
// several hosts, statements never fail while no host can be used: it connects again without a pause. So the driver
// gets open sockets.
import { Duplex } from 'node:stream'
import type { Socket } from 'node:net'
import postgres from 'postgres'
import {
  parseDatabaseUrl,
  serverName,
  type DatabaseAddress,
  type DatabaseServer,
  type SessionKind,
} from './address.ts'
import { reportLastError } from './last-errors.ts'
import { openSocket, UnusableServerError } from './socket.ts'

export type DatabaseTarget = {
  address: DatabaseAddress
  /**
   * Opens a connection to a server that meets `target_session_attrs`. Errors: those of `openSocket` and postgres.js.
   */
  open: () => Promise<Socket>
  /** The time limit of `open`. */
  open_limit_ms: number
}

type SessionState = { is_standby: boolean; is_read_only: boolean }

/** How long a server that was checked is used for further connections without another check. */
const CHECK_LIFETIME_MS = 1_000

const REQUIREMENTS: Record<SessionKind, { accepts: (session: SessionState) => boolean; text: string }> = {
  any: { accepts: () => true, text: '' },
  'read-write': { accepts: (session) => !session.is_read_only, text: 'one that accepts writes' },
  'read-only': { accepts: (session) => session.is_read_only, text: 'one that accepts no writes' },
  primary: { accepts: (session) => !session.is_standby, text: 'a primary' },
  standby: { accepts: (session) => session.is_standby, text: 'a standby' },
  'prefer-standby': { accepts: (session) => session.is_standby, text: 'a standby' },
}

/** The target of a database URL. It remembers the last usable server, which is tried first. */
export function createTarget(url: string): DatabaseTarget {
  const address = parseDatabaseUrl(url)
  const { servers, session, connect_timeout_ms } = address
  if (servers.length === 1 && session === 'any')
    return { address, open: () => openSocket(servers[0], address), open_limit_ms: connect_timeout_ms }

  let checked: { server: DatabaseServer; at: number } | undefined
  let checking: Promise<DatabaseServer> | undefined

  const choose = async (): Promise<DatabaseServer> => {
    if (checked !== undefined && performance.now() - checked.at < CHECK_LIFETIME_MS) return checked.server
    checking ??= findServer(address, checked?.server).finally(() => (checking = undefined))
    const server = await checking
    checked = { server, at: performance.now() }
    return server
  }

  return {
    address,
    async open() {
      const server = await choose()
      try {
        return await openSocket(server, address)
      } catch {
        if (checked !== undefined) checked.at = -Infinity
        return await openSocket(await choose(), address)
      }
    },
    // Two checks of all servers, with a connection and its authentication each, and two connections.
    open_limit_ms: connect_timeout_ms * (4 * servers.length + 2),
  }
}

/** The first usable server, `last` first. Like libpq, tries no other server after a refused authentication. */
async function findServer(address: DatabaseAddress, last?: DatabaseServer): Promise<DatabaseServer> {
  const { servers, session } = address
  const others = servers.filter((server) => server !== last)
  const problems: string[] = []
  let fallback: DatabaseServer | undefined
  for (const server of last === undefined ? others : [last, ...others]) {
    try {
      const found = await readSession(server, address)
      if (REQUIREMENTS[session].accepts(found)) return server
      fallback ??= server
      problems.push(`${serverName(server)} is ${describe(found)}`)
    } catch (error) {
      if (error instanceof postgres.PostgresError && /^(28|3D)/.test(error.code)) throw error
      problems.push(`${serverName(server)}: ${(error as Error).message}`)
    }
  }
  if (session === 'prefer-standby' && fallback !== undefined) return fallback
  const needed =
    session === 'any' ? '' : ` (target_session_attrs=${session} needs ${REQUIREMENTS[session].text})`
  throw new UnusableServerError('CONNECT_SESSION', `${problems.join('; ')}${needed}`)
}

function describe({ is_standby, is_read_only }: SessionState): string {
  if (is_standby) return 'a standby'
  return is_read_only ? 'a primary that is read-only' : 'a primary'
}

async function readSession(server: DatabaseServer, address: DatabaseAddress): Promise<SessionState> {
  const sql = openSession(
    { address, open: () => openSocket(server, address) },
    { connect_timeout: address.connect_timeout_ms / 1000 },
  )
  try {
    const [session] = await sql<[SessionState]>`
      select pg_is_in_recovery() as is_standby, current_setting('transaction_read_only') = 'on' as is_read_only`
    return session
  } finally {
    await sql.end({ timeout: 1 })
  }
}

/** One session with only the settings of its address. Default: notices are ignored. */
export function openSession(
  target: Pick<DatabaseTarget, 'address' | 'open'>,
  options: Pick<postgres.Options<never>, 'connect_timeout' | 'connection' | 'onnotice'> = {},
): postgres.Sql {
  return postgres({
    ...driverOptions(target),
    max: 1,
    fetch_types: false,
    onnotice: () => {},
    ...options,
  })
}

/** The options of postgres.js for a target. */
export function driverOptions({ address, open }: Pick<DatabaseTarget, 'address' | 'open'>) {
  const { servers, user, password, database, pgbouncer, settings } = address
  const { host, port } = servers[0]
  const credentials: { user?: string; password?: string; database?: string } = {}
  if (user !== undefined) credentials.user = user
  if (password !== undefined) credentials.password = password
  if (database !== undefined) credentials.database = database
  return {
    // Only for errors: `socket` makes the connections.
    host,
    port,
    ...credentials,
    ssl: false,
    prepare: !pgbouncer,
    connection: settings,
    socket: () => open().then(reportLastError).catch(failedSocket),
  }
}

/**
 * A socket that fails with this error once the driver writes to it. The driver would lose a connection whose `socket`
 * rejects.
 */
function failedSocket(error: unknown): Duplex {
  const socket = new Duplex({
    emitClose: false,
    read() {},
    write: (_chunk, _encoding, done) => done(error as Error),
    destroy(cause, done) {
      done(cause)
      // The argument of a socket's `close`: whether an error closed it.
      process.nextTick(() => socket.emit('close', true))
    },
  })
  return socket
}

// Runs the machine's redis-server or valkey-server for development, tests and demos if REDIS_URL is unset.
import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ConfigError } from '#core/config.ts'
import { createPrivateFile } from './files.ts'
import {
  type Account,
  type ServerFolder,
  createPrivateFolder,
  createServerFolder,
  reaches,
} from './folders.ts'
import { assertFree, launchOnPort, type PortRequest } from './ports.ts'
import { type ServerProcess, stopOrphan, findProgram, spawnServer, waitUntilReady } from './processes.ts'

export type RedisOptions = {
  /** Folder of its append-only file and log. Null: nothing is stored. */
  data_dir: string | null
  /** Default 0: any free port of 127.0.0.1. */
  port?: number
  /** The variable to name in error messages about the port. */
  port_variable?: string
  /** Default: a random password. */
  password?: string
  /** Added to the defaults or overriding them, e.g. `{ maxmemory: '64mb' }`. */
  settings?: Record<string, string>
  /** Receives progress lines. The server's own log is `server.log` in the folder. */
  log?: (line: string) => void
}

export type EmbeddedRedis = {
  /** Includes the password. */
  url: string
  port: number
  /** Changes with a restart. */
  readonly pid: number
  /** The folder in use: under /var/tmp if the account of the server cannot reach `data_dir`. */
  folder: string
  /** Resolves when the current server exits, with the signal or the exit code. */
  exited: () => Promise<string>
  /** Starts the server again after it has exited, on the same port with its stored data. Needs a `data_dir`. */
  restart: () => Promise<void>
  /** Clean shutdown: writes all data first. */
  stop: () => Promise<void>
  /** Kills the server like a crash. The next `startRedis` on the same folder loads the data that was written. */
  kill: () => Promise<void>
}

const HOST = '127.0.0.1'
const STOP_TIMEOUT_MS = 10_000
const START_TIMEOUT_MS = 60_000

/**
 * Starts `redis-server` or `valkey-server`, the first that is on the PATH and executable, never as root; null if there
 * is none. First stops a server that a killed run left in `data_dir`. Throws ConfigError if the port is in use, if a
 * running process uses the folder, or, with the end of the server's log, if the server is not ready within 60 s.
 */
export async function startRedis(options: RedisOptions): Promise<EmbeddedRedis | null> {
  const { port: requested_port = 0, port_variable = 'REDIS_PORT', log = () => {} } = options
  const port_request: PortRequest = {
    what: 'Redis',
    host: HOST,
    port: requested_port,
    variable: port_variable,
  }
  const temporary = options.data_dir === null ? await mkdtemp(join(tmpdir(), 'sluice-redis-')) : null
  const home = await createServerFolder(options.data_dir ?? temporary ?? '')
  const { account } = home
  const program = await findServer(account)
  if (program === null) {
    if (temporary) await removeAll()
    return null
  }
  if (!temporary)
    log(`Redis keeps its data in ${home.folder}${account ? ` and runs as ${account.name}` : ''}`)
  const orphan = await stopOrphan(home.folder, ['SIGTERM', 'SIGKILL'], STOP_TIMEOUT_MS)
  if (orphan?.was_running) log(`Stopped the Redis ${orphan.pid} that an earlier run left behind`)
  await assertFree(port_request)

  if (!existsSync(home.data)) await createPrivateFolder(home.data, account)
  const password = options.password ?? randomBytes(24).toString('base64url')
  const configuration = await writeConfiguration(home, {
    ...defaults(home, options),
    requirepass: password,
  })
  const { server: first, port } = await launchOnPort(port_request, (one) => launch(program, one))
  let server = first

  async function end(signals: NodeJS.Signals[]): Promise<void> {
    await server.end(signals, STOP_TIMEOUT_MS)
    if (temporary) await removeAll()
  }
  async function removeAll(): Promise<void> {
    for (const folder of [home.folder, temporary])
      if (folder !== null) await rm(folder, { recursive: true, force: true })
  }
  return {
    url: `redis://:${password}@${HOST}:${port}`,
    port,
    get pid() {
      return server.pid
    },
    folder: home.folder,
    exited: () => server.exited,
    async restart() {
      server = await launch(program, port)
    },
    stop: () => end(['SIGTERM', 'SIGKILL']),
    kill: () => end(['SIGKILL']),
  }

  async function launch(command: string, port: number): Promise<ServerProcess> {
    const server = await spawnServer({
      command,
      args: [configuration, '--port', String(port)],
      folder: home.folder,
      account,
      end_signal: 'SIGTERM',
    })
    const state = await waitUntilReady(server, () => hasLoaded(port, server.pid, password), START_TIMEOUT_MS)
    if (state === 'ready') return server
    const what =
      state === 'ended' ? 'ended while starting' : `was not ready after ${START_TIMEOUT_MS / 1000} s`
    throw new ConfigError(`Redis ${what}; its log is ${join(home.folder, 'server.log')}\n${server.log()}`)
  }
}

/** The first server program that the account can execute. */
async function findServer(account: Account | null): Promise<string | null> {
  for (const name of ['redis-server', 'valkey-server']) {
    const program = findProgram([name])
    if (program !== null && (account === null || (await reaches(account, program)))) return program
  }
  return null
}

function defaults(home: ServerFolder, options: RedisOptions): Record<string, string> {
  return {
    bind: HOST,
    'protected-mode': 'yes',
    daemonize: 'no',
    dir: home.data,
    save: '',
    appendonly: options.data_dir === null ? 'no' : 'yes',
    appendfsync: 'everysec',
    // BullMQ's keys must not be evicted: if memory is full, producers get an error.
    'maxmemory-policy': 'noeviction',
    ...options.settings,
  }
}

/**
 * Writes the settings to a file that only the server can read, because command lines are public, and returns its
 * path. The file is not in the server's own folder, where the server's account could redirect the write with a link.
 */
async function writeConfiguration(home: ServerFolder, settings: Record<string, string>): Promise<string> {
  const path = join(home.folder, 'redis.conf')
  const lines = Object.entries(settings).map(([name, value]) => `${name} ${JSON.stringify(value)}\n`)
  await createPrivateFile(path, lines.join(''), home.account)
  return path
}

/**
 * Whether the process `pid` serves the port (another process may have taken the port first) and has loaded its data.
 */
async function hasLoaded(port: number, pid: number, password: string): Promise<boolean> {
  const info = await sendCommand(port, `AUTH ${password}\r\nINFO\r\n`, /\r\nloading:\d/)
  return info.includes(`\r\nprocess_id:${pid}\r\n`) && info.includes('\r\nloading:0\r\n')
}

/** Sends one command. Returns the output until `until` matches, the connection ends or a second passes. */
async function sendCommand(port: number, command: string, until: RegExp): Promise<string> {
  return new Promise((resolve) => {
    let answer = ''
    const socket = connect({ port, host: HOST })
    socket.setTimeout(1000, () => socket.destroy())
    socket.on('connect', () => socket.write(command))
    socket.on('data', (chunk) => {
      answer += chunk.toString('utf8')
      if (until.test(answer)) socket.destroy()
    })
    socket.on('error', () => {})
    socket.on('close', () => resolve(answer))
  })
}

// The redis-server or valkey-server of this machine: for development, tests and demos, where no REDIS_URL is given.
import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ConfigError } from '#core/config.ts'
import { makePrivateFile } from './files.ts'
import { type Account, type ServerFolder, makePrivateFolder, makeServerFolder, reaches } from './folders.ts'
import { assertFree, launchOnPort, type PortRequest } from './ports.ts'
import { type ServerProcess, stopOrphan, findProgram, spawnServer, waitUntilReady } from './processes.ts'

export type RedisOptions = {
  /** Where its append-only file and log are kept; null: it forgets everything when it ends. */
  data_dir: string | null
  /** Default 0: any free port of 127.0.0.1. */
  port?: number
  /** The variable that an error about the port names. */
  port_variable?: string
  /** For who has to know it before the start; else one is made up. */
  password?: string
  /** Beyond or instead of the defaults, e.g. `{ maxmemory: '64mb' }`. */
  settings?: Record<string, string>
  /** Hears what is done and where, a line at a time; the server's own log is `server.log` in the folder. */
  log?: (line: string) => void
}

export type EmbeddedRedis = {
  /** With the password. */
  url: string
  port: number
  /** Another one after a restart. */
  readonly pid: number
  /** The folder really used: under /var/tmp when the account that it runs as cannot reach `data_dir`. */
  folder: string
  /** Resolves when the server that runs now has ended, with the signal or the exit code. */
  ended: () => Promise<string>
  /** Starts one with a folder again when it has ended, on the same port and with what was written. */
  restart: () => Promise<void>
  /** Writes out what it holds and ends. */
  stop: () => Promise<void>
  /** Ends it as a crash would; another `startRedis` on the same folder has what was written. */
  kill: () => Promise<void>
}

const HOST = '127.0.0.1'
const STOP_TIMEOUT_MS = 10_000
const START_TIMEOUT_MS = 60_000

/**
 * Starts `redis-server` or `valkey-server`, whichever is on the PATH and can be run, never as root; null when neither
 * is. A server that a killed run left in `data_dir` is stopped first. Throws when the port is taken, when a living
 * process uses the folder, and, with the end of the server's log, when it does not come up within 60 s.
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
  const home = await makeServerFolder(options.data_dir ?? temporary ?? '')
  const { account } = home
  const program = await findServer(account)
  if (program === null) {
    if (temporary) await removeAll()
    return null
  }
  if (!temporary)
    log(`Redis keeps its data in ${home.folder}${account ? ` and runs as ${account.name}` : ''}`)
  const orphan = await stopOrphan(home.folder, ['SIGTERM', 'SIGKILL'], STOP_TIMEOUT_MS)
  if (orphan?.was_running) log(`Stopped the Redis ${orphan.pid} that an earlier run had left`)
  await assertFree(port_request)

  if (!existsSync(home.data)) await makePrivateFolder(home.data, account)
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
    ended: () => server.ended,
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

/** The first that the account may run: as root itself it never runs. */
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
    // BullMQ's keys must never be evicted: full is an error that producers see.
    'maxmemory-policy': 'noeviction',
    ...options.settings,
  }
}

/**
 * In a file that only the server may read: a command line is for everybody. Not in the server's own folder, where what
 * we write could be led elsewhere. Answers its path.
 */
async function writeConfiguration(home: ServerFolder, settings: Record<string, string>): Promise<string> {
  const path = join(home.folder, 'redis.conf')
  const lines = Object.entries(settings).map(([name, value]) => `${name} ${JSON.stringify(value)}\n`)
  await makePrivateFile(path, lines.join(''), home.account)
  return path
}

/** Whether the server on that port is this one (not one that was faster with the port) and has read its file. */
async function hasLoaded(port: number, pid: number, password: string): Promise<boolean> {
  const info = await ask(port, `AUTH ${password}\r\nINFO\r\n`, /\r\nloading:\d/)
  return info.includes(`\r\nprocess_id:${pid}\r\n`) && info.includes('\r\nloading:0\r\n')
}

/** Sends one command and returns what came back until `enough` matched, the connection ended, or a second passed. */
async function ask(port: number, command: string, until: RegExp): Promise<string> {
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

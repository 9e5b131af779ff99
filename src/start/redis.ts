// The redis-server or valkey-server of this machine: for development, tests and demos, where no REDIS_URL is given.
import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type ServerFolder, makePrivateFolder, makeServerFolder, reaches } from './folders.ts'
import {
  type ServerProcess,
  endLeftover,
  findProgram,
  freePort,
  isFree,
  portTaken,
  spawnServer,
  untilReady,
} from './processes.ts'

export type RedisOptions = {
  /** Where its append-only file and log are kept; null: it forgets everything when it ends. */
  data_dir: string | null
  /** Default 0: any free port of 127.0.0.1. */
  port?: number
  /** The variable that an error about the port names. */
  port_variable?: string
  /** Beyond or instead of the defaults, e.g. `{ maxmemory: '64mb' }`. */
  settings?: Record<string, string>
  /** Hears what is done and where, a line at a time; the server's own log is `server.log` in the folder. */
  log?: (line: string) => void
}

export type EmbeddedRedis = {
  url: string
  port: number
  pid: number
  /** The folder really used: under /var/tmp when the account that it runs as cannot reach `data_dir`. */
  folder: string
  /** Writes out what it holds and ends. */
  stop: () => Promise<void>
  /** Ends it as a crash would; another `startRedis` on the same folder has what was written. */
  kill: () => Promise<void>
}

const HOST = '127.0.0.1'
const END_LIMIT_MS = 10_000
const START_LIMIT_MS = 60_000

/**
 * Starts `redis-server` or `valkey-server`, whichever is on the PATH; null when neither is. A server that a killed run left in
 * `data_dir` is stopped first. Throws when the port is taken, when a living process uses the folder, and, with the end of the server's
 * log, when it does not come up within 60 s.
 */
export async function startRedis(options: RedisOptions): Promise<EmbeddedRedis | null> {
  const { port: wantedPort = 0, port_variable: variable = 'REDIS_PORT', log = () => {} } = options
  const program = findProgram(['redis-server', 'valkey-server'])
  if (program === null) return null

  const temporary = options.data_dir === null ? await mkdtemp(join(tmpdir(), 'sluice-redis-')) : null
  const place = await makeServerFolder(options.data_dir ?? temporary ?? '')
  if (!temporary) log(`Redis keeps its data in ${place.folder}`)
  const leftover = await endLeftover(place.folder, ['SIGTERM', 'SIGKILL'], END_LIMIT_MS)
  if (leftover?.was_running) log(`Stopped the Redis ${leftover.pid} that an earlier run had left`)
  if (wantedPort !== 0 && !(await isFree(HOST, wantedPort)))
    throw portTaken('Redis', HOST, wantedPort, variable)

  const account = place.account && (await reaches(place.account, program)) ? place.account : null
  if (!existsSync(place.data)) await makePrivateFolder(place.data, account)
  const { server, port } = await launchOnPort()

  async function end(signals: NodeJS.Signals[]): Promise<void> {
    await server.end(signals, END_LIMIT_MS)
    if (temporary) {
      await rm(place.folder, { recursive: true, force: true })
      await rm(temporary, { recursive: true, force: true })
    }
  }
  return {
    url: `redis://${HOST}:${port}`,
    port,
    pid: server.pid,
    folder: place.folder,
    stop: () => end(['SIGTERM', 'SIGKILL']),
    kill: () => end(['SIGKILL']),
  }

  async function launchOnPort(): Promise<{ server: ServerProcess; port: number }> {
    for (let tries = 1; ; tries++) {
      const port = wantedPort === 0 ? await freePort(HOST) : wantedPort
      const server = await spawnServer({
        command: program ?? '',
        args: configuration(port, place, options),
        folder: place.folder,
        account,
        end_signal: 'SIGTERM',
      })
      const state = await untilReady(server, () => hasLoaded(port, server.pid), START_LIMIT_MS)
      if (state === 'ready') return { server, port }
      const wasTaken = server.log().includes('Address already in use')
      if (wasTaken && wantedPort !== 0) throw portTaken('Redis', HOST, port, variable)
      if (!wasTaken || tries === 5) {
        const what =
          state === 'ended' ? 'ended while starting' : `was not ready after ${START_LIMIT_MS / 1000} s`
        throw new Error(`Redis ${what}. The end of ${join(place.folder, 'server.log')}:\n${server.log()}`)
      }
    }
  }
}

/** Loopback without a password is for development; protected mode stays on, so that no other address gets in. */
function configuration(port: number, place: ServerFolder, options: RedisOptions): string[] {
  const settings: Record<string, string> = {
    port: String(port),
    bind: HOST,
    'protected-mode': 'yes',
    daemonize: 'no',
    dir: place.data,
    save: '',
    appendonly: options.data_dir === null ? 'no' : 'yes',
    appendfsync: 'everysec',
    // BullMQ's keys must never be evicted: full is an error that producers see.
    'maxmemory-policy': 'noeviction',
    ...options.settings,
  }
  return Object.entries(settings).flatMap(([name, value]) => [`--${name}`, value])
}

/** Whether the server on that port is this one (not one that was faster with the port) and has read its file. */
async function hasLoaded(port: number, pid: number): Promise<boolean> {
  const info = await ask(port, 'INFO\r\n', /\r\nloading:\d/)
  return info.includes(`\r\nprocess_id:${pid}\r\n`) && info.includes('\r\nloading:0\r\n')
}

/** Sends one command and returns what came back until `enough` matched, the connection ended, or a second passed. */
async function ask(port: number, command: string, enough: RegExp): Promise<string> {
  return new Promise((resolve) => {
    let answer = ''
    const socket = connect({ port, host: HOST })
    socket.setTimeout(1000, () => socket.destroy())
    socket.on('connect', () => socket.write(command))
    socket.on('data', (chunk) => {
      answer += chunk.toString('utf8')
      if (enough.test(answer)) socket.destroy()
    })
    socket.on('error', () => {})
    socket.on('close', () => resolve(answer))
  })
}

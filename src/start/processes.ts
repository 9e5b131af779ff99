// Runs servers as child processes, each in its own process group. None outlives this process; servers of a killed run
// are found and stopped.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { ConfigError } from '#core/config.ts'
import { accessSync, closeSync, constants, existsSync, fstatSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { z } from 'zod'
import { openOwnFile, readOwnFile, writeOwnFile } from './files.ts'
import type { Account } from './folders.ts'

export type ServerProcess = {
  pid: number
  /** False once the process has exited. */
  running: () => boolean
  /** Resolves when the process exits, with the signal or the exit code. */
  exited: Promise<string>
  /** Sends the signals in order, each after `timeout_ms`, until the process exits. */
  end: (signals: NodeJS.Signals[], timeout_ms: number) => Promise<void>
  /** The output since the start of the process, at most the last 40 lines. */
  log: () => string
}

/**
 * The server that runs in a folder, and the process that started it. Pids are reused, so each pid is stored with the
 * start time of its process.
 */
const ServerRecord = z.object({
  pid: z.int(),
  started: z.string(),
  owner_pid: z.int(),
  owner_started: z.string(),
})

/** The environment of a server. Inherits nothing, so that it gets neither `PGPORT` nor a secret. */
export const serverEnvironment = { PATH: process.env.PATH ?? '/usr/bin:/bin', LC_ALL: 'C', TZ: 'UTC' }

/**
 * Starts a server whose output goes to `server.log` in `folder`. It leads its own process group: Ctrl-C signals the
 * whole foreground group, and a database must not stop before its clients. `end_signal` shuts the server down
 * cleanly; it is also sent if this process dies without stopping the server.
 */
export async function spawnServer(options: {
  command: string
  args: string[]
  folder: string
  account: Account | null
  end_signal: NodeJS.Signals
  /** Default: `serverEnvironment`. */
  env?: NodeJS.ProcessEnv
}): Promise<ServerProcess> {
  // A file, not a pipe: the server would block on a pipe that a busy process does not read.
  const logFile = join(options.folder, 'server.log')
  const tooLong = (statSync(logFile, { throwIfNoEntry: false })?.size ?? 0) > 10_000_000
  const output = openOwnFile(logFile, tooLong ? 'write' : 'append')
  const logStart = fstatSync(output).size
  const child = spawn(options.command, options.args, {
    detached: true,
    stdio: ['ignore', output, output],
    cwd: options.folder,
    env: options.env ?? serverEnvironment,
    ...(options.account && { uid: options.account.uid, gid: options.account.gid }),
  })
  closeSync(output)
  const exited = new Promise<string>((resolve) =>
    child.once('exit', (code, signal) => resolve(signal ?? `exit code ${code}`)),
  )
  const pid = await pidOf(child)
  const watchdog = startWatchdog(pid, options.end_signal)
  void exited.then(() => watchdog.kill('SIGKILL'))
  try {
    writeServerRecord(options.folder, pid)
  } catch (error) {
    child.kill('SIGKILL')
    throw error
  }
  child.unref()

  const running = () => child.exitCode === null && child.signalCode === null
  return {
    pid,
    running,
    exited,
    async end(signals, timeout_ms) {
      child.ref()
      for (const signal of signals) {
        if (!running()) break
        child.kill(signal)
        await Promise.race([exited, sleep(timeout_ms, undefined, { ref: false })])
      }
      await exited
    },
    log: () => tail(logFile, logStart),
  }
}

/**
 * Polls `ready` until it returns true. Returns `ended` if the server exited first, and `late` if the timeout passed
 * and the server was killed.
 */
export async function waitUntilReady(
  server: ServerProcess,
  ready: () => Promise<boolean>,
  timeout_ms: number,
): Promise<'ready' | 'ended' | 'late'> {
  const deadline = Date.now() + timeout_ms
  for (;;) {
    if (!server.running()) return 'ended'
    if (await ready()) return 'ready'
    if (Date.now() > deadline) {
      await server.end(['SIGKILL'], 10_000)
      return 'late'
    }
    await sleep(20)
  }
}

/**
 * Stops the server that a killed run left in this folder, with the first of `signals` that works. Returns the
 * server's pid, even if the server has already exited; null if no server is recorded. Throws ConfigError if the
 * process that started it still runs, because the folder is then in use.
 */
export async function stopOrphan(
  folder: string,
  signals: NodeJS.Signals[],
  timeout_ms: number,
): Promise<{ pid: number; was_running: boolean } | null> {
  const record = readServerRecord(folder)
  if (!record) return null
  const isRunning = () => processStarted(record.pid) === record.started
  const was_running = isRunning()
  // A process that was just killed may take a moment to exit.
  for (let attempt = 0; attempt < 25 && isRunning(); attempt++) await sleep(20)
  if (isRunning() && processStarted(record.owner_pid) === record.owner_started) {
    throw new ConfigError(
      `${folder} is in use by the server ${record.pid}, which process ${record.owner_pid} started. ` +
        `Stop that process first, or choose another folder with DATA_DIR, e.g. DATA_DIR=.data-2.`,
    )
  }
  for (const signal of signals) {
    const deadline = Date.now() + timeout_ms
    if (isRunning()) process.kill(record.pid, signal)
    while (isRunning() && Date.now() < deadline) await sleep(20)
  }
  if (isRunning())
    throw new ConfigError(
      `The server ${record.pid} of an earlier run in ${folder} could not be stopped. Kill it: kill -9 ${record.pid}`,
    )
  return { pid: record.pid, was_running }
}

/** The path of the first of these programs that is on the PATH; null if none is. */
export function findProgram(names: string[]): string | null {
  const folders = (process.env.PATH ?? '').split(':').filter(Boolean)
  const candidates = names.flatMap((name) => folders.map((folder) => join(folder, name)))
  return candidates.find(isExecutable) ?? null
}

/**
 * The start time of a process in the format of the system; null if no process has that pid. A zombie counts as none: on
 * systems where nothing reaps orphans, zombies stay for ever.
 */
export function processStarted(pid: number): string | null {
  if (existsSync('/proc/self/stat')) {
    try {
      const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
      // Field 2 is the program's name in brackets and may contain anything; field 3 is the state, field 22 the start
      // time.
      const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
      return fields[0] === 'Z' || fields[0] === 'X' ? null : (fields[19] ?? null)
    } catch {
      return null
    }
  }
  try {
    const [state = '', ...started] = ps(pid, 'stat=,lstart=')
    return state === '' || state.startsWith('Z') ? null : started.join(' ')
  } catch {
    return null
  }
}

/**
 * The command line of a process of this user, its arguments separated by spaces; null if the process does not exist or
 * belongs to another user.
 */
export function commandOfOwnProcess(pid: number): string | null {
  try {
    if (existsSync('/proc/self/cmdline')) {
      const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ')
      return statSync(`/proc/${pid}`).uid === process.getuid?.() ? command : null
    }
    const [uid, ...command] = ps(pid, 'uid=,command=')
    return Number(uid) === process.getuid?.() ? command.join(' ') : null
  } catch {
    return null
  }
}

/** The columns that `ps` prints of a process. Throws if it does not exist. */
function ps(pid: number, columns: string): string[] {
  const output = execFileSync('ps', ['-ww', '-o', columns, '-p', String(pid)], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
    env: serverEnvironment,
  })
  return output.trim().split(/\s+/)
}

/**
 * Starts a watchdog: a process that waits for the end of its input and then stops the server. Only the process that
 * calls this function holds the other end of that input, and the system closes it even after kill -9. The watchdog has
 * its own process group: otherwise Ctrl-C would stop it first.
 */
function startWatchdog(pid: number, signal: NodeJS.Signals): ChildProcess {
  const name = signal.replace('SIG', '')
  const watchdog = spawn('/bin/sh', ['-c', `read -r _; kill -s ${name} ${pid}`], {
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
    env: serverEnvironment,
  })
  watchdog.unref()
  if (watchdog.stdin && 'unref' in watchdog.stdin && typeof watchdog.stdin.unref === 'function')
    watchdog.stdin.unref()
  // The server works without a watchdog, and the next start stops an orphaned server.
  watchdog.on('error', () => {})
  watchdog.stdin?.on('error', () => {})
  return watchdog
}

async function pidOf(child: ChildProcess): Promise<number> {
  if (child.pid !== undefined) return child.pid
  const error: unknown = await new Promise((resolve) => child.once('error', resolve))
  throw error
}

function writeServerRecord(folder: string, pid: number): void {
  const record: z.infer<typeof ServerRecord> = {
    pid,
    started: processStarted(pid) ?? 'ended',
    owner_pid: process.pid,
    owner_started: processStarted(process.pid) ?? '',
  }
  writeOwnFile(join(folder, 'server.json'), JSON.stringify(record))
}

function readServerRecord(folder: string): z.infer<typeof ServerRecord> | null {
  const text = readOwnFile(join(folder, 'server.json')) ?? ''
  try {
    return ServerRecord.parse(JSON.parse(text))
  } catch {
    return null
  }
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}

function tail(file: string, start: number): string {
  const written = existsSync(file) ? readFileSync(file).subarray(start).toString('utf8') : ''
  return written.trimEnd().split('\n').slice(-40).join('\n')
}

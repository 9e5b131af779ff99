// Runs servers as child processes: each in its own process group, none outliving us; leftovers of a killed run are
// found and stopped.
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
  /** Whether it has not ended yet. */
  running: () => boolean
  /** Resolves when it has ended, with the signal or the exit code. */
  ended: Promise<string>
  /** Sends the signals one after the other, with this much time after each, until the process has ended. */
  end: (signals: NodeJS.Signals[], timeout_ms: number) => Promise<void>
  /** What it has written since it was started, at most the last 40 lines. */
  log: () => string
}

/**
 * The server that runs in a folder, and the process that started it. Pids are reused, so each comes with its start
 * time.
 */
const ServerRecord = z.object({
  pid: z.int(),
  started: z.string(),
  owner_pid: z.int(),
  owner_started: z.string(),
})

/** The environment of a server: nothing of ours, so that it gets neither `PGPORT` nor a secret. */
export const serverEnvironment = { PATH: process.env.PATH ?? '/usr/bin:/bin', LC_ALL: 'C', TZ: 'UTC' }

/**
 * Starts a server whose output goes to `server.log` in `folder`. It leads a process group of its own, because Ctrl-C
 * goes to the whole foreground group and a database must not be gone before its clients have finished.
 * `end_signal` makes it shut down cleanly; it is sent when we die without having stopped the server.
 */
export async function spawnServer(options: {
  command: string
  args: string[]
  folder: string
  account: Account | null
  end_signal: NodeJS.Signals
}): Promise<ServerProcess> {
  // A file and not a pipe: a pipe that we are too busy to read would stop the server in the middle of its work.
  const logFile = join(options.folder, 'server.log')
  const tooLong = (statSync(logFile, { throwIfNoEntry: false })?.size ?? 0) > 10_000_000
  const output = openOwnFile(logFile, tooLong ? 'write' : 'append')
  const logStart = fstatSync(output).size
  const child = spawn(options.command, options.args, {
    detached: true,
    stdio: ['ignore', output, output],
    cwd: options.folder,
    env: serverEnvironment,
    ...(options.account && { uid: options.account.uid, gid: options.account.gid }),
  })
  closeSync(output)
  const ended = new Promise<string>((resolve) =>
    child.once('exit', (code, signal) => resolve(signal ?? `exit code ${code}`)),
  )
  const pid = await pidOf(child)
  const watchdog = startWatchdog(pid, options.end_signal)
  void ended.then(() => watchdog.kill('SIGKILL'))
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
    ended,
    async end(signals, timeout_ms) {
      child.ref()
      for (const signal of signals) {
        if (!running()) break
        child.kill(signal)
        await Promise.race([ended, sleep(timeout_ms, undefined, { ref: false })])
      }
      await ended
    },
    log: () => tail(logFile, logStart),
  }
}

/**
 * Waits until `ready` says so. `ended`: the server ended before; `late`: the time was up, and it has been ended.
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
 * Ends the server that a killed run left in this folder, with the first of `signals` that works. Returns the
 * leftover's pid, also when it had ended already, or null. Throws when the process that started it is still there:
 * then it is in use.
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
  // One that has just been killed may still be on its way out.
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
    throw new ConfigError(`The server ${record.pid}, left over in ${folder}, could not be stopped.`)
  return { pid: record.pid, was_running }
}

/** The first of these programs that is on the PATH, with its folder; null when none is. */
export function findProgram(names: string[]): string | null {
  const folders = (process.env.PATH ?? '').split(':').filter(Boolean)
  const candidates = names.flatMap((name) => folders.map((folder) => join(folder, name)))
  return candidates.find(isExecutable) ?? null
}

/**
 * When a process was started, in its system's own words; null when there is none with that pid (a zombie counts as
 * none: where nothing reaps orphans they stay for ever).
 */
export function processStarted(pid: number): string | null {
  if (existsSync('/proc/self/stat')) {
    try {
      const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
      // The second field is the program's name in brackets and may hold anything; state is field 3, start time field
      // 22.
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
 * The command line of a process of our own user, its arguments separated by spaces; null when there is none with that
 * pid or it is another user's.
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

/** What `ps` says of a process, in words. Throws when there is none. */
function ps(pid: number, columns: string): string[] {
  const told = execFileSync('ps', ['-ww', '-o', columns, '-p', String(pid)], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
    env: serverEnvironment,
  })
  return told.trim().split(/\s+/)
}

/**
 * Starts a process that waits for the end of its input and then ends the server. Only we hold that input, and the
 * system closes it even when we are killed with -9. The process has its own group, or Ctrl-C would end it before us.
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
  // Without a watcher the server still works, and the next start finds a leftover by itself.
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

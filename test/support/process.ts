// Starts a real process that a test can observe, freeze and kill.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { setTimeout as sleep } from 'node:timers/promises'
import { builtFile } from './built.ts'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
/** The compile cache that the scripts of package.json use. It halves the start time. */
export const COMPILE_CACHE = { NODE_COMPILE_CACHE: resolve(ROOT, 'node_modules/.cache/node') }
const START_LIMIT_MS = 120_000
const END_LIMIT_MS = 60_000

type Ended = { code: number | null; signal: NodeJS.Signals | null }
export type Process = {
  pid: number
  /** The log line that contained `ready`. Empty if `ready` is not set. */
  ready: string
  /** Sends a signal and does not wait. */
  signal(signal: NodeJS.Signals): void
  /** Sends a signal and resolves when the process has ended. Kills the process after 60 s. Default: SIGKILL. */
  end(signal?: NodeJS.Signals): Promise<Ended>
  ended: Promise<Ended>
  /** Closes the pipe of the process's output, as `| head` does. */
  closeOutput(): void
  /** Stops reading the process's output, as a pager does, so that the pipe fills up. */
  stopReading(): void
  /** Standard output and standard error so far. */
  output(): string
  /**
   * Resolves with the first line that contains this text, even if the line was written before the call. Rejects if the
   * process ends before it writes the line.
   */
  waitForLine(text: string): Promise<string>
}

/** The `url` in a log line. */
export function urlIn(line: string): string {
  return (JSON.parse(line) as { url: string }).url
}

/**
 * Starts `node <file>` with only this environment and the compile cache; what production runs for a file of the
 * project's folder, see `builtFile`. Resolves when a line contains `ready`, or
 * immediately if `ready` is not set. Throws with the output if the process ends before that, or after 120 s. The
 * process ends when this process ends, even if this process is killed.
 */
export async function startProcess(
  file: string,
  {
    args = [],
    flags = [],
    env = {},
    ready,
    root = ROOT,
    cwd = root,
    output: to,
    onOutputLine,
  }: {
    args?: string[]
    /** Flags of Node itself. */
    flags?: string[]
    env?: NodeJS.ProcessEnv
    ready?: string
    /** The project's folder, or a copy of it. */
    root?: string
    /** Working directory. Default: the project's folder. */
    cwd?: string
    /** The file descriptor of the output. Default: this process reads the output. */
    output?: number | undefined
    /** Called for each line of output. */
    onOutputLine?: (line: string) => void
  } = {},
): Promise<Process> {
  const program = root === ROOT ? await builtFile(file) : file
  const child = spawn(process.execPath, [...flags, resolve(root, program), ...args], {
    cwd,
    env: { PATH: process.env.PATH, ...COMPILE_CACHE, ...env },
    stdio: ['ignore', to ?? 'pipe', to ?? 'pipe'],
  })
  const pid = child.pid!
  // The kernel closes the watcher's input when this process ends, even if this process is killed.
  const watcher = spawn('/bin/sh', ['-c', `read -r _; kill -s KILL ${pid}`], {
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  })
  watcher.unref()
  watcher.stdin.on('error', () => {})
  const ended = once(child, 'close').then(([code, signal]: unknown[]) => {
    watcher.kill('SIGKILL')
    return { code, signal } as Ended
  })

  const lines: string[] = []
  const listeners = new Set<(line: string) => void>(onOutputLine ? [onOutputLine] : [])
  const streams = [child.stdout, child.stderr].filter((stream) => stream !== null)
  for (const stream of streams) {
    createInterface({ input: stream }).on('line', (line) => {
      lines.push(line)
      for (const listener of listeners) listener(line)
    })
  }
  const output = () => lines.join('\n')

  async function waitForLine(text: string): Promise<string> {
    const reported = lines.find((line) => line.includes(text))
    if (reported !== undefined) return reported
    return await new Promise((resolve, reject) => {
      const listener = (line: string) => {
        if (!line.includes(text)) return
        listeners.delete(listener)
        resolve(line)
      }
      listeners.add(listener)
      void ended.then(({ code, signal }) =>
        reject(new Error(`${file} ended (${code ?? signal}) before it printed "${text}":\n${output()}`)),
      )
    })
  }

  async function isReady(text: string): Promise<string> {
    const timeout = setTimeout(() => child.kill('SIGKILL'), START_LIMIT_MS)
    return await waitForLine(text).finally(() => clearTimeout(timeout))
  }

  return {
    pid,
    ready: ready === undefined ? '' : await isReady(ready),
    signal: (signal) => void child.kill(signal),
    async end(signal = 'SIGKILL') {
      child.kill(signal)
      const timeout = setTimeout(() => child.kill('SIGKILL'), END_LIMIT_MS)
      return await ended.finally(() => clearTimeout(timeout))
    },
    ended,
    closeOutput() {
      for (const stream of streams) stream.destroy()
    },
    stopReading() {
      for (const stream of streams) stream.pause()
      // A paused stream never ends.
      child.once('exit', () => streams.forEach((stream) => stream.resume()))
    },
    output,
    waitForLine,
  }
}

/**
 * Polls until the result is neither undefined nor false, and returns the result. Throws with `what` after `limit_ms`.
 */
export async function until<T>(
  what: string,
  poll: () => Promise<T | undefined | false> | T | undefined | false,
  limit_ms = 100_000,
): Promise<T> {
  const deadline = performance.now() + limit_ms
  for (const pause_ms of pauses()) {
    const found = await poll()
    if (found !== undefined && found !== false) return found
    if (performance.now() > deadline) break
    await sleep(pause_ms)
  }
  throw new Error(`this did not happen within ${limit_ms} ms: ${what}`)
}

/** Short pauses at first, longer pauses later, because polling takes processor time from the observed processes. */
export function* pauses(): Generator<number> {
  for (let pause_ms = 20; ; pause_ms = Math.min(pause_ms * 1.3, 500)) yield pause_ms
}

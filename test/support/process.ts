// Starts a real process to observe, freeze and kill it.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { setTimeout as sleep } from 'node:timers/promises'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
/** As in the scripts of package.json. Halves the start time. */
export const COMPILE_CACHE = { NODE_COMPILE_CACHE: resolve(ROOT, 'node_modules/.cache/node') }
const START_LIMIT_MS = 120_000
const END_LIMIT_MS = 60_000

type Ended = { code: number | null; signal: NodeJS.Signals | null }
export type Process = {
  pid: number
  /** The log line that reported that it is ready; empty without `ready`. */
  ready: string
  /** Sends a signal and does not wait. */
  signal(signal: NodeJS.Signals): void
  /** Sends a signal and resolves when the process has ended. After 60 s it is killed. Default: SIGKILL. */
  end(signal?: NodeJS.Signals): Promise<Ended>
  ended: Promise<Ended>
  /** Closes the pipe of its output, as `| head` does. */
  closeOutput(): void
  /** Stops reading its output, as a pager does: the pipe fills up. */
  stopReading(): void
  /** Standard output and error so far. */
  output(): string
  /** Resolves with the first line, past or future, that contains this text. Rejects if the process ends before. */
  waitForLine(text: string): Promise<string>
}

/**
 * Starts `node <file>` with only this environment and the compile cache. Resolves when a line contains `ready`, or
 * immediately without `ready`. Throws with the output if the process ends before, or after 120 s. The process does not
 * outlive this one, even if this one is killed.
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
    /** The project's folder or a copy. */
    root?: string
    /** Working directory. Default: the project's folder. */
    cwd?: string
    /** Descriptor for its output. Default: this process reads it. */
    output?: number | undefined
    /** Called for each line of output. */
    onOutputLine?: (line: string) => void
  } = {},
): Promise<Process> {
  const child = spawn(process.execPath, [...flags, resolve(root, file), ...args], {
    cwd,
    env: { PATH: process.env.PATH, ...COMPILE_CACHE, ...env },
    stdio: ['ignore', to ?? 'pipe', to ?? 'pipe'],
  })
  const pid = child.pid!
  // The kernel closes the watcher's input even if this process is killed.
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

/** Polls until the result is neither undefined nor false. After `limit_ms` throws with `what`. */
export async function until<T>(
  what: string,
  poll: () => Promise<T | undefined | false> | T | undefined | false,
  limit_ms = 45_000,
): Promise<T> {
  const deadline = performance.now() + limit_ms
  for (const pause_ms of pauses()) {
    const found = await poll()
    if (found !== undefined && found !== false) return found
    if (performance.now() > deadline) break
    await sleep(pause_ms)
  }
  throw new Error(`not within ${limit_ms} ms: ${what}`)
}

/** Short pauses at first, then longer ones: polling takes processor time from the observed processes. */
export function* pauses(): Generator<number> {
  for (let pause_ms = 20; ; pause_ms = Math.min(pause_ms * 1.3, 200)) yield pause_ms
}

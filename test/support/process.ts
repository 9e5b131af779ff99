// One process as it is started for real, to be watched, frozen and killed; and waiting for what it does.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { setTimeout as sleep } from 'node:timers/promises'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
/** As the scripts of package.json have it: a process begins in half the time. */
export const COMPILE_CACHE = { NODE_COMPILE_CACHE: resolve(ROOT, 'node_modules/.cache/node') }
const START_LIMIT_MS = 120_000
const END_LIMIT_MS = 60_000

type Ended = { code: number | null; signal: NodeJS.Signals | null }
export type Process = {
  pid: number
  /** The line that said it was ready; empty when none was awaited. */
  ready: string
  /** Sends a signal and goes on at once. */
  signal(signal: NodeJS.Signals): void
  /** Sends a signal, SIGKILL unless told, and resolves when the process has ended; after 60 s it is killed. */
  end(signal?: NodeJS.Signals): Promise<Ended>
  ended: Promise<Ended>
  /** Stops reading what it writes, as `| head` does. */
  closeOutput(): void
  /** The same, as a pager does: what it writes waits for a reader. */
  stopReading(): void
  /** What it has written to standard output and error so far. */
  output(): string
  /** Resolves with the first line, past or to come, that holds this text; rejects when the process ends before. */
  waitForLine(text: string): Promise<string>
}

/**
 * Starts `node <file>` with this environment and, beside where compiled code is kept, no other; resolves when it has written a line that holds `ready`, or at once
 * without. Throws with what it wrote when it ends before, as it does after 120 s. It does not outlive this process, however that
 * ends.
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
    /** Node's own. */
    flags?: string[]
    env?: NodeJS.ProcessEnv
    ready?: string
    /** The folder of the project, or of a copy of it. */
    root?: string
    /** Where it runs; in the project's folder unless told. */
    cwd?: string
    /** The descriptor that it writes to; we read what it writes without. */
    output?: number | undefined
    /** Hears each line as it is written. */
    onOutputLine?: (line: string) => void
  } = {},
): Promise<Process> {
  const child = spawn(process.execPath, [...flags, resolve(root, file), ...args], {
    cwd,
    env: { PATH: process.env.PATH, ...COMPILE_CACHE, ...env },
    stdio: ['ignore', to ?? 'pipe', to ?? 'pipe'],
  })
  const pid = child.pid!
  // The system closes the watcher's input also when this process is killed.
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
        reject(new Error(`${file} ended (${code ?? signal}) without saying "${text}":\n${output()}`)),
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
      // Else it would never be at its end.
      child.once('exit', () => streams.forEach((stream) => stream.resume()))
    },
    output,
    waitForLine,
  }
}

/** Asks again and again until the answer is neither undefined nor false. Throws after `limit_ms`, naming what was awaited. */
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
  throw new Error(`waited ${limit_ms} ms for this: ${what}`)
}

/** Short ones at first, then longer: who asks all the time takes the processor from what is waited for. */
export function* pauses(): Generator<number> {
  for (let pause_ms = 20; ; pause_ms = Math.min(pause_ms * 1.3, 200)) yield pause_ms
}

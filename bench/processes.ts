// Starts the measured processes as in production and samples their memory.
import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { builtFile } from '#test/built.ts'
import { startProcess, type Process } from '#test/process.ts'

export type Running = Process & {
  /** Resident memory in megabytes. */
  rssMb(): number
  stop(): Promise<void>
  [Symbol.asyncDispose](): Promise<void>
}

const START_LIMIT_MS = 60_000
const root = fileURLToPath(new URL('../', import.meta.url))

/**
 * Starts `node <file>` with production settings and `env` as its environment. The process is ready when a line of its
 * output contains `ready`, or when the URL `answers` returns 2xx. `profile`: the folder for its CPU profile, which is
 * written when the process ends.
 */
export async function startMeasured(
  name: string,
  file: string,
  options: {
    env?: Record<string, string>
    args?: string[]
    ready?: string
    answers?: string
    cwd: string
    profile?: string | null
  },
): Promise<Running> {
  const { args, ready, answers, cwd, profile = null } = options
  const packaged = asPackaged(await builtFile(file))
  const profiling = profile === null ? [] : ['--cpu-prof', `--cpu-prof-dir=${folderOf(profile, name)}`]
  const started = await startProcess(file, {
    args,
    flags: [...profiling, ...packaged.flags],
    env: { HOME: process.env.HOME, NODE_ENV: 'production', TZ: 'UTC', ...packaged.env, ...options.env },
    ready,
    cwd,
  })
  const stop = async () => void (await started.end('SIGTERM'))
  if (answers !== undefined) {
    const failed = started.ended.then(() => {
      throw new Error(`${name} ended while starting:\n${started.output()}`)
    })
    failed.catch(() => {})
    await Promise.race([untilAnswers(answers), failed]).catch(async (error: unknown) => {
      await stop()
      throw error
    })
  }
  return { ...started, rssMb: () => rssMb(started.pid), stop, [Symbol.asyncDispose]: stop }
}

/** Resolves when `url` answers 2xx. Polls every 10 ms. */
export async function untilAnswers(url: string, limit_ms = START_LIMIT_MS): Promise<void> {
  const until = performance.now() + limit_ms
  for (;;) {
    const answer = await fetch(url).catch(() => null)
    await answer?.arrayBuffer()
    if (answer?.ok) return
    if (performance.now() > until) throw new Error(`${url} did not answer within ${limit_ms} ms`)
    await sleep(10)
  }
}

/** The peak of the processes' total resident memory during `work`, in megabytes. */
export async function peakRss<T>(
  processes: Running[],
  work: () => Promise<T>,
): Promise<{ value: T; peak_mb: number }> {
  let peak_mb = 0
  const sample = () => {
    peak_mb = Math.max(
      peak_mb,
      processes.reduce((sum, one) => sum + one.rssMb(), 0),
    )
  }
  const timer = setInterval(sample, 500)
  try {
    const value = await work()
    sample()
    return { value, peak_mb }
  } finally {
    clearInterval(timer)
  }
}

/** Reads /proc if there is one: starting `ps` stops the load generator for longer than an answer takes. */
function rssMb(pid: number): number {
  try {
    return Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1]) / 1024
  } catch {
    return Number(execFileSync('ps', ['-o', 'rss=', '-p', String(pid)], { encoding: 'utf8' })) / 1024
  }
}

/** The flags of Node and the environment with which a script of package.json starts this file. */
function asPackaged(file: string): { flags: string[]; env: Record<string, string> } {
  const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
    scripts: Record<string, string>
  }
  const tokens = Object.values(scripts)
    .find((script) => script.endsWith(` ${file}`))
    ?.split(' ')
  return {
    flags: tokens?.filter((token) => token.startsWith('--')) ?? [],
    // The path becomes absolute, because a measured process runs in another folder.
    env: tokens?.[0]?.startsWith('NODE_COMPILE_CACHE=')
      ? { NODE_COMPILE_CACHE: join(root, tokens[0].split('=')[1]!) }
      : {},
  }
}

function folderOf(profile: string, name: string): string {
  const folder = join(profile, name)
  mkdirSync(folder, { recursive: true })
  return folder
}

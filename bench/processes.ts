// The processes under measurement: started as in production, watched for memory and CPU, ended by name.
import { execFileSync, spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

export type Running = {
  name: string
  pid: number
  /** What it said when it was ready: a line of JSON with `url`, or nothing. */
  told: Record<string, unknown>
  /** Resident memory in megabytes. */
  rssMb(): number
  stop(): Promise<void>
  [Symbol.asyncDispose](): Promise<void>
}

const START_LIMIT_MS = 60_000
const STOP_LIMIT_MS = 30_000
const root = fileURLToPath(new URL('../', import.meta.url))

const started = new Set<ChildProcess>()
process.once('exit', () => {
  for (const child of started) child.kill('SIGKILL')
})

/**
 * Starts `node <file>` with nothing of our environment but `env`. It is ready when `ready` (a url) answers 200, or when it
 * prints a line of JSON that begins with its `url`. `profile`: a folder for its CPU profile, written when it ends.
 */
export async function startNode(
  name: string,
  file: string,
  options: {
    env?: Record<string, string>
    args?: string[]
    ready?: string
    cwd: string
    profile?: string | null
  },
): Promise<Running> {
  const flags =
    options.profile == null ? [] : ['--cpu-prof', `--cpu-prof-dir=${folderOf(options.profile, name)}`]
  const usual = asPackaged(file)
  const child = spawn(
    process.execPath,
    [...flags, ...usual.flags, join(root, file), ...(options.args ?? [])],
    {
      cwd: options.cwd,
      env: {
        PATH: process.env.PATH ?? '',
        HOME: process.env.HOME ?? '',
        NODE_ENV: 'production',
        TZ: 'UTC',
        ...usual.env,
        ...options.env,
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    },
  )
  started.add(child)
  const ended = once(child, 'exit').then(() => started.delete(child))
  const tail: string[] = []
  const note = (line: string) => {
    tail.push(line)
    if (tail.length > 20) tail.shift()
  }
  let told: Record<string, unknown> = {}
  const tells = new Promise<void>((resolve) => {
    createInterface({ input: child.stdout }).on('line', (line) => {
      note(line)
      if (!/^\{"(?:stripe_)?url":/.test(line)) return
      told = JSON.parse(line) as Record<string, unknown>
      resolve()
    })
  })
  createInterface({ input: child.stderr }).on('line', note)
  const failed = ended.then(() => {
    throw new Error(`${name} ended while starting:\n${tail.join('\n')}`)
  })
  const late = sleep(START_LIMIT_MS, undefined, { ref: false }).then(() => {
    throw new Error(`${name} was not ready after ${START_LIMIT_MS / 1000} s:\n${tail.join('\n')}`)
  })
  late.catch(() => {})
  failed.catch(() => {})
  await Promise.race([options.ready === undefined ? tells : untilAnswers(options.ready), failed, late])
  async function stop(): Promise<void> {
    child.kill('SIGTERM')
    await Promise.race([ended, sleep(STOP_LIMIT_MS, undefined, { ref: false })])
    child.kill('SIGKILL')
    await ended
  }
  return { name, pid: child.pid!, told, rssMb: () => rssMb(child.pid!), stop, [Symbol.asyncDispose]: stop }
}

/** Resolves when `url` answers 2xx, asking every 10 ms. */
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

/** The most that `processes` had resident together, sampled while `work` runs, in megabytes. */
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

function rssMb(pid: number): number {
  return Number(execFileSync('ps', ['-o', 'rss=', '-p', String(pid)], { encoding: 'utf8' })) / 1024
}

/** Node's flags and environment as the scripts of package.json give them to this file. */
function asPackaged(file: string): { flags: string[]; env: Record<string, string> } {
  const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
    scripts: Record<string, string>
  }
  const words = Object.values(scripts)
    .find((script) => script.endsWith(` ${file}`))
    ?.split(' ')
  return {
    flags: words?.filter((word) => word.startsWith('--')) ?? [],
    // A process that is measured runs in another folder.
    env: words?.[0]?.startsWith('NODE_COMPILE_CACHE=')
      ? { NODE_COMPILE_CACHE: join(root, words[0].split('=')[1]!) }
      : {},
  }
}

function folderOf(profile: string, name: string): string {
  const folder = join(profile, name)
  mkdirSync(folder, { recursive: true })
  return folder
}

// The scripts of package.json: a signal to npm gracefully stops all processes of a script.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { join } from 'node:path'
import { expect, onTestFinished } from 'vitest'
import { processStarted } from '#start/processes.ts'
import { builtFile } from '#test/built.ts'
import { createTemporaryFolder } from '#test/folders.ts'
import { PARTS } from '#test/parts.ts'
import { OPERATIONS_READY } from '#test/served-metrics.ts'
import { startedProcesses, PORTS } from '#test/start.ts'
import { testIn } from '#test/world.ts'

const ROOT = fileURLToPath(new URL('../', import.meta.url))

const test = testIn({ parts: [] })

test('every script replaces its shell (exec), so that signals reach the process of the script', async () => {
  const { scripts } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8')) as {
    scripts: Record<string, string>
  }
  const without_exec = Object.entries(scripts).filter(([, script]) => !/^(?:[A-Z_]+=\S+ )*exec /.test(script))
  expect(without_exec).toEqual([])
})

test.for(['api', 'webhooks', 'worker'] as const)(
  'SIGTERM to `npm run %s` gracefully stops the process of the script',
  async (script, { world }) => {
    await builtFile(PARTS[script].file)
    const running = await npm(script, OPERATIONS_READY, { ...world.env, LOG_LEVEL: 'info' })
    const { pid } = JSON.parse(running.ready) as { pid: number }
    expect(processStarted(pid)).not.toBeNull()
    running.child.kill('SIGTERM')
    expect(await running.ended).toEqual([0, null])
    expect(running.output()).toContain('stopping: finishing the work in progress')
    expect(processStarted(pid)).toBeNull()
  },
)

test.for(['SIGTERM to npm', 'Ctrl-C'])('%s stops `npm start` and its servers', async (signal) => {
  const folder = await createTemporaryFolder()
  onTestFinished(folder.remove)
  const running = await npm('start', 'Ctrl-C stops everything.', { DATA_DIR: folder.path })
  const readPid = async (file: string) =>
    (JSON.parse(await readFile(join(folder.path, file), 'utf8')) as { pid: number }).pid
  const pids = await Promise.all(['running.json', 'postgres/server.json', 'redis/server.json'].map(readPid))
  pids.push(...Object.values(await startedProcesses(folder.path)).map(({ pid }) => pid))
  expect(pids).toHaveLength(11)
  expect(pids.map((pid) => processStarted(pid))).not.toContain(null)

  // The terminal signals the whole process group, and npm forwards its signal, so the process gets two signals.
  if (signal === 'Ctrl-C') process.kill(-running.child.pid!, 'SIGINT')
  else running.child.kill('SIGTERM')
  expect(await running.ended).toEqual([0, null])
  expect(running.output()).toMatch(/\nStopping\n(?:.*\n)*Stopped after \d+\.\d s\.$/)
  expect(pids.map((pid) => processStarted(pid))).toEqual(pids.map(() => null))
  // The processes that create work stop before the worker.
  const lines = (await readFile(join(folder.path, 'sluice.log'), 'utf8'))
    .trim()
    .split('\n')
    .filter((line) => line.includes('stopping: finishing the work'))
    .map((line) => JSON.parse(line) as { name: string; time: string })
  expect(lines.map(({ name }) => name).toSorted()).toEqual([
    'api',
    'dashboard',
    'start',
    'webhooks',
    'worker',
  ])
  const stop_times = Object.fromEntries(lines.map(({ name, time }) => [name, time]))
  const [first, ...last] = [
    stop_times['start']!,
    stop_times['api']!,
    stop_times['webhooks']!,
    stop_times['worker']!,
  ].toSorted()
  // Several processes can log their stop in the same millisecond.
  expect([first, last.at(-1)]).toEqual([stop_times['start'], stop_times['worker']])
})

async function npm(script: string, ready: string, env: Record<string, string>) {
  const child = spawn('npm', ['run', script], {
    cwd: ROOT,
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { PATH: process.env.PATH, HOME: process.env.HOME, NODE_ENV: 'test', ...env, ...PORTS },
  })
  const ended = once(child, 'close') as Promise<[number | null, NodeJS.Signals | null]>
  onTestFinished(async () => {
    if (child.exitCode === null && child.signalCode === null) process.kill(-child.pid!, 'SIGKILL')
    await ended
  })
  const lines: string[] = []
  const ready_line = await new Promise<string>((resolve, reject) => {
    for (const stream of [child.stdout, child.stderr])
      createInterface({ input: stream }).on('line', (line) => {
        lines.push(line)
        if (line.includes(ready)) resolve(line)
      })
    void ended.then(() => reject(new Error(lines.join('\n'))))
  })
  return { child, ended, ready: ready_line, output: () => lines.join('\n') }
}

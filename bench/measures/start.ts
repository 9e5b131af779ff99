// `npm start`: from the command to the first answer, in a folder that is empty and in one that is not.
import { spawn } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { freePort } from '#start/processes.ts'
import { makeFolder } from '#test/folders.ts'
import { median } from '../compare.ts'
import { untilAnswers } from '../processes.ts'
import { below, info } from '../table.ts'
import type { Measure } from './measure.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))
const STOP_LIMIT_MS = 40_000

export const start: Measure = {
  name: 'start',
  about: '`npm start` to the first answer: the first start and the next',
  async run(system) {
    const folder = await makeFolder('bench')
    try {
      const first_s = await timeStart(folder.path)
      const next: number[] = []
      for (let round = 0; round < system.options.rounds; round++) next.push(await timeStart(folder.path))
      const row = { measure: 'start', unit: 's' } as const
      return [
        info({ ...row, name: '`npm start` to the first answer, first start', measured: first_s }),
        below({ ...row, name: '`npm start` to the first answer, next start', measured: median(next) }, 5),
      ]
    } finally {
      await folder.remove()
    }
  },
}

/** Seconds; everything has ended when this resolves. */
async function timeStart(data_dir: string): Promise<number> {
  const port = await freePort('127.0.0.1')
  const started = performance.now()
  // A group of its own: npm, its shell and ours end together.
  const npm = spawn('npm', ['start'], {
    cwd: root,
    detached: true,
    stdio: 'ignore',
    env: {
      PATH: process.env.PATH ?? '',
      HOME: process.env.HOME ?? '',
      LOG_LEVEL: 'warn',
      DATA_DIR: data_dir,
      API_PORT: String(port),
      WEBHOOKS_PORT: '0',
      METRICS_PORT: '0',
      EMULATOR_PORT: '0',
    },
  })
  const group = -npm.pid!
  try {
    await untilAnswers(`http://127.0.0.1:${port}/healthz`)
    return (performance.now() - started) / 1000
  } finally {
    // To npm alone, which passes it on: a second one would make ours leave at once.
    npm.kill('SIGTERM')
    const until = performance.now() + STOP_LIMIT_MS
    while (signal(group, 0) && performance.now() < until) await sleep(20)
    signal(group, 'SIGKILL')
  }
}

function signal(group: number, name: NodeJS.Signals | 0): boolean {
  try {
    process.kill(group, name)
    return true
  } catch {
    return false
  }
}

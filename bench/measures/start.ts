// `npm start`: the time from the command to the first answer, in an empty folder and in a filled one, and the cost of
// an idle system.
import { setTimeout as sleep } from 'node:timers/promises'
import { createTemporaryFolder } from '#test/folders.ts'
import { median } from '../compare.ts'
import { cpuTimes } from '../cpu.ts'
import { npmStart } from '../npm-start.ts'
import { below, info, type Row } from '../table.ts'
import type { Measure } from './measure.ts'

/** An idle system is measured for this long, after a pause of `REST_MS` in which the work of the start ends. */
const IDLE_MS = 60_000
const REST_MS = 30_000
const SERVERS = ['postgres', 'redis-server', 'valkey-server']

export const start: Measure = {
  name: 'start',
  about: '`npm start` to the first answer: the first start and the next; what it costs while idle',
  async run(system) {
    const folder = await createTemporaryFolder('bench')
    try {
      const first_s = await timeStart(folder.path)
      const next: number[] = []
      for (let round = 0; round < system.options.rounds; round++) next.push(await timeStart(folder.path))
      const row = { measure: 'start', unit: 's' } as const
      return [
        info({ ...row, name: '`npm start` to the first answer, first start', measured: first_s }),
        below({ ...row, name: '`npm start` to the first answer, next start', measured: median(next) }, 5),
        ...(await watchIdle(folder.path)),
      ]
    } finally {
      await folder.remove()
    }
  },
}

/** Returns the time of a start in seconds. All started processes have ended when the promise resolves. */
async function timeStart(data_dir: string): Promise<number> {
  const started_at = performance.now()
  await using all = await npmStart(data_dir)
  void all
  return (performance.now() - started_at) / 1000
}

/** Processor time of an idle system as a share of a core. */
async function watchIdle(data_dir: string): Promise<Row[]> {
  await using npm = await npmStart(data_dir)
  await sleep(REST_MS)
  const [before, from] = [cpuTimes(npm.pid), performance.now()]
  await sleep(IDLE_MS)
  const [after, elapsed_ms] = [cpuTimes(npm.pid), performance.now() - from]
  const shares = Array.from(after, ([name, ms]) => {
    const share = ((ms - (before.get(name) ?? 0)) / elapsed_ms) * 100
    return { name, share, server: SERVERS.includes(name) }
  })
  const own_shares = shares.filter(({ server }) => !server)
  const row = { measure: 'start', unit: '%' } as const
  const total = own_shares.reduce((sum, { share }) => sum + share, 0)
  return [
    below({ ...row, name: 'Idle system, share of a core', measured: total }, 1),
    ...own_shares.map(({ name, share }) => info({ ...row, name: `Idle system, ${name}`, measured: share })),
    ...shares
      .filter(({ server }) => server)
      .map(({ name, share }) => info({ ...row, name: `Idle system, ${name}`, measured: share })),
  ]
}

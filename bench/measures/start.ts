// `npm start`: from the command to the first answer, in a folder that is empty and in one that is not.
import { makeFolder } from '#test/folders.ts'
import { median } from '../compare.ts'
import { npmStart } from '../npm-start.ts'
import { below, info } from '../table.ts'
import type { Measure } from './measure.ts'

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
  const began = performance.now()
  await using all = await npmStart(data_dir)
  void all
  return (performance.now() - began) / 1000
}

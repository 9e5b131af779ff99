// Progress output of `npm start`: the steps and their durations.

/** Runs a step of the start. Prints its name first, and its duration when it finishes. */
export type StartStep = <T>(name: string, work: () => Promise<T>) => Promise<T>

type Progress = {
  step: StartStep
  /** Ends the open line of the running step, so that another line can be printed. The step prints its name again. */
  endLine: () => void
}

/** The progress of a start, printed with `write`. */
export function createProgress(write: (text: string) => void): Progress {
  let is_open = false
  return {
    async step(name, work) {
      const began_at = performance.now()
      const begin = `  ${`${name} `.padEnd(60, '.')} `
      const end = (text: string) => {
        write(`${is_open ? '' : begin}${text}\n`)
        is_open = false
      }
      write(begin)
      is_open = true
      try {
        const result = await work()
        end(secondsSince(began_at))
        return result
      } catch (error) {
        end('failed')
        throw error
      }
    },
    endLine() {
      if (is_open) write('\n')
      is_open = false
    },
  }
}

/** The time since a value of `performance.now()`, such as `1.2 s`. */
export function secondsSince(moment: number): string {
  return `${((performance.now() - moment) / 1000).toFixed(1)} s`
}

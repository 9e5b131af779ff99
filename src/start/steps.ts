// Progress output of `npm start`: the steps and their durations.

/** Runs a step of the start. Prints its name first, and its duration when it finishes. */
export type StartStep = <T>(name: string, work: () => Promise<T>) => Promise<T>

/** A StartStep that prints with `write`. */
export function createStep(write: (text: string) => void): StartStep {
  return async (name, work) => {
    const began_at = performance.now()
    write(`  ${`${name} `.padEnd(60, '.')} `)
    try {
      const result = await work()
      write(`${secondsSince(began_at)}\n`)
      return result
    } catch (error) {
      write('failed\n')
      throw error
    }
  }
}

/** The time since a value of `performance.now()`, such as `1.2 s`. */
export function secondsSince(moment: number): string {
  return `${((performance.now() - moment) / 1000).toFixed(1)} s`
}

// The table of variables for people, as `--help` shows it.
import type { z } from 'zod'
import { isReadBy, neededBy } from './readers.ts'
import type { ProcessName } from './row.ts'
import { VARIABLE_NAMES, VARIABLES, type VariableName } from './variables.ts'

type Variable = {
  name: VariableName
  example: string
  about: string
  /** The default; empty when there is none. */
  standard: string
  read_by: ProcessName[]
}

/** One entry for each variable, in the order of the table. */
export function variables(): Variable[] {
  return VARIABLE_NAMES.map((name) => {
    const [must_be, example, about, read_by] = VARIABLES[name]
    return { name, example, about, standard: standardOf(must_be), read_by: [...read_by] }
  })
}

function standardOf(must_be: z.ZodType): string {
  const standard: unknown = must_be.safeParse(undefined).data ?? ''
  if (Array.isArray(standard)) return standard.join(',')
  if (typeof standard === 'object')
    return Object.entries(standard ?? {})
      .map(([name, value]) => `${name}:${value}`)
      .join(',')
  return typeof standard === 'string' ? standard : JSON.stringify(standard)
}

/** The text of `--help`: every variable that a process reads; those that it cannot start without are marked. */
export function describeVariables(process: ProcessName): string {
  const needed = neededBy(process)
  const read = variables().filter(({ name }) => isReadBy(name, process))
  const width = Math.max(...read.map(({ name }) => name.length)) + 2
  return read
    .map(({ name, example, about, standard }) => {
      const facts = [
        needed.includes(name) ? 'Needed.' : standard !== '' && `Default: ${standard}.`,
        `Example: ${name}=${example}`,
      ]
      const lines = [...wrapped(`${about}.`, 100 - width), facts.filter(Boolean).join(' ')]
      return `  ${lines.map((line, index) => (index === 0 ? name : '').padEnd(width) + line).join('\n  ')}`
    })
    .join('\n')
}

function wrapped(text: string, width: number): string[] {
  const lines = ['']
  for (const word of text.split(' ')) {
    const longer = lines.at(-1) === '' ? word : `${lines.at(-1)} ${word}`
    if (longer.length > width && lines.at(-1) !== '') lines.push(word)
    else lines[lines.length - 1] = longer
  }
  return lines
}

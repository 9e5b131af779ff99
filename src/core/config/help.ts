// The table of variables for `--help`.
import type { z } from 'zod'
import { isReadBy, requiredVariables } from './readers.ts'
import type { ProcessName } from './row.ts'
import { fileVariableOf, isReread, SECRET_NAMES } from './secret-files.ts'
import { VARIABLE_NAMES, VARIABLES, type VariableName } from './variables.ts'

type Variable = {
  name: VariableName
  example: string
  about: string
  /** The default; empty if there is none. */
  default_value: string
  read_by: ProcessName[]
}

/** One entry for each variable, in the order of the table. */
export function variables(): Variable[] {
  return VARIABLE_NAMES.map((name) => {
    const [schema, example, about, read_by] = VARIABLES[name]
    return { name, example, about, default_value: defaultOf(schema), read_by: [...read_by] }
  })
}

function defaultOf(schema: z.ZodType): string {
  const default_value: unknown = schema.safeParse(undefined).data ?? ''
  if (Array.isArray(default_value)) return default_value.join(',')
  if (typeof default_value === 'object')
    return Object.entries(default_value ?? {})
      .map(([name, value]) => `${name}:${value}`)
      .join(',')
  return typeof default_value === 'string' ? default_value : JSON.stringify(default_value)
}

/** The text of `--help`: every variable that a process reads; required variables are marked. */
export function describeVariables(process: ProcessName): string {
  const needed = requiredVariables(process)
  const read = variables().filter(({ name }) => isReadBy(name, process))
  const width = Math.max(...read.map(({ name }) => name.length)) + 2
  return read
    .map(({ name, example, about, default_value }) => {
      const facts = [
        needed.includes(name) ? 'Needed.' : default_value !== '' && `Default: ${default_value}.`,
        `Example: ${name}=${example}`,
      ]
      const lines = [...wrapLines(`${about}.`, 100 - width), facts.filter(Boolean).join(' ')]
      return `  ${lines.map((line, index) => (index === 0 ? name : '').padEnd(width) + line).join('\n  ')}`
    })
    .join('\n')
}

/** Which secrets of a process can be in files, and which of the files are read again. */
export function describeSecretFiles(process: ProcessName): string {
  const names = SECRET_NAMES.filter((name) => isReadBy(name, process))
  const reread = names.filter(isReread)
  const runs_on = process !== 'migrate' && reread.length > 0
  return [
    `A secret can be in a file: ${fileVariableOf(names[0]!)} names the file of ${names[0]}. Secrets: ${names.join(', ')}.`,
    ...(runs_on ? [`After SIGHUP the files of ${reread.join(', ')} are read again.`] : []),
  ]
    .flatMap((line) => wrapLines(line, 100))
    .join('\n')
}

function wrapLines(text: string, width: number): string[] {
  const lines = ['']
  for (const word of text.split(' ')) {
    const longer = lines.at(-1) === '' ? word : `${lines.at(-1)} ${word}`
    if (longer.length > width && lines.at(-1) !== '') lines.push(word)
    else lines[lines.length - 1] = longer
  }
  return lines
}

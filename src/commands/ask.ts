// Asks the operator who runs a command.
import { createInterface } from 'node:readline/promises'
import { ConfigError } from '#core/config.ts'
import { output } from './print.ts'

/**
 * Asks a question on standard error, and reads the answer from standard input. Errors: ConfigError unless the answer is
 * yes, also if the signal aborts.
 */
export async function requireYes(question: string, signal?: AbortSignal): Promise<void> {
  const { stdin, stderr } = output.getStore()!
  stderr.write(`${question} [y/N] `)
  const answer = stdin === undefined ? '' : await readLine(stdin, signal)
  if (!/^y(es)?$/i.test(answer.trim()))
    throw new ConfigError('The answer was not yes: nothing was done. Scripts pass --yes.')
}

async function readLine(stdin: NodeJS.ReadableStream, signal?: AbortSignal): Promise<string> {
  const lines = createInterface({ input: stdin, ...(signal && { signal }) })
  try {
    for await (const line of lines) return line
    return ''
  } finally {
    lines.close()
  }
}

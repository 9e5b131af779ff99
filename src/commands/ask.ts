// Asks the operator who runs a command.
import { createInterface } from 'node:readline/promises'
import { ConfigError } from '#core/config.ts'
import { output } from './print.ts'

/**
 * Asks a question on standard error, and reads the answer from standard input. Errors: ConfigError unless the answer is
 * yes.
 */
export async function confirm(question: string): Promise<void> {
  const { stdin, stderr } = output.getStore()!
  stderr.write(`${question} [y/N] `)
  const answer = stdin === undefined ? '' : await readLine(stdin)
  if (!/^y(es)?$/i.test(answer.trim()))
    throw new ConfigError('Not confirmed: nothing was done. Scripts confirm with --yes.')
}

async function readLine(stdin: NodeJS.ReadableStream): Promise<string> {
  const lines = createInterface({ input: stdin })
  try {
    for await (const line of lines) return line
    return ''
  } finally {
    lines.close()
  }
}

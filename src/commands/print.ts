// Output of commands. A reader such as `| head` may close the pipe early: then the command exits without an error.
import { AsyncLocalStorage } from 'node:async_hooks'

type Stream = { write(text: string): unknown }
/** `stdin`: where questions are answered. Without it, none is. */
export type Output = { stdout: Stream; stderr: Stream; stdin?: NodeJS.ReadableStream }

/** The output of the command that runs. Default: that of this process. */
export const output = new AsyncLocalStorage<Output>({ defaultValue: process })

process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error
  process.exit()
})

const CONTROLS = /[\p{Cc}\p{Cf}]+/gu

/** An untrusted text as one line without control characters. */
export function terminalText(text: string, max_length = 300): string {
  return text.replaceAll(CONTROLS, ' ').slice(0, max_length)
}

/** An untrusted text of several lines without other control characters. */
export function terminalLines(text: string): string {
  return text
    .split('\n')
    .map((line) => line.replaceAll(CONTROLS, ' '))
    .join('\n')
}

const MAX_COLUMNS = 120

/** A text in lines that fit on a page of help; those after the first one are indented. */
export function wrapText(text: string, indent = ''): string {
  const [first = '', ...words] = text.split(' ')
  const lines = [first]
  for (const word of words) {
    const line = `${lines.at(-1)} ${word}`
    if (line.length > MAX_COLUMNS) lines.push(`${indent}${word}`)
    else lines[lines.length - 1] = line
  }
  return lines.join('\n')
}

/** Prints a line on standard error. */
export function printError(line: string): void {
  output.getStore()!.stderr.write(`${visibleControls(line)}\n`)
}

/** Prints a line on standard output. */
export function print(line: string): void {
  output.getStore()!.stdout.write(`${visibleControls(line)}\n`)
}

/** Writes control characters other than the end of a line as JSON does, which may be escaped in JSON too. */
function visibleControls(text: string): string {
  return text.replaceAll(
    /(?!\n)\p{Cc}/gu,
    (control) => `\\u00${control.codePointAt(0)!.toString(16).padStart(2, '0')}`,
  )
}

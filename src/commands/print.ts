// Output of commands. A reader such as `| head` may close the pipe early: then the command exits without an error.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error
  process.exit()
})

/** Prints a line on standard output. */
export function print(line: string): void {
  process.stdout.write(`${line}\n`)
}

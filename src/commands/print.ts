// What commands print.

// Whoever reads the lines may stop early, as `| head` does: then nobody waits for the rest.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error
  process.exit()
})

/** Prints a line on standard output. */
export function print(line: string): void {
  process.stdout.write(`${line}\n`)
}

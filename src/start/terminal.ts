// Writes the output of the parts to the terminal.

/** If several parts write the same warning within this time, it is printed once: the warnings have one cause. */
const DUPLICATE_WARNING_MS = 10_000

/** Prints the lines of all parts, except a warning that another part has just printed. The log contains all lines. */
export function createTerminalWriter(write: (text: string) => void): (name: string, line: string) => void {
  const warnings = new Map<string, { name: string; at: number }>()
  return (name, line) => {
    const message = messageOf(line)
    const now = performance.now()
    for (const [text, { at }] of warnings) if (now - at > DUPLICATE_WARNING_MS) warnings.delete(text)
    const previous = warnings.get(message)
    if (previous !== undefined && previous.name !== name) return
    warnings.set(message, { name, at: now })
    write(line)
  }
}

function messageOf(line: string): string {
  try {
    return (JSON.parse(line) as { msg?: string }).msg ?? line
  } catch {
    return line
  }
}

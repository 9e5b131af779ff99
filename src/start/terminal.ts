// What the parts write for whoever looks at the terminal.

/** A warning that several parts give within this time has one cause, and is shown once. */
const DUPLICATE_WARNING_MS = 10_000

/** Shows the lines of all parts; a warning that another part has just given is left to the log. */
export function createTerminalWriter(write: (text: string) => void): (name: string, line: string) => void {
  const warnings = new Map<string, { name: string; at: number }>()
  return (name, line) => {
    const message = messageOf(line)
    const now = performance.now()
    for (const [old, { at }] of warnings) if (now - at > DUPLICATE_WARNING_MS) warnings.delete(old)
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

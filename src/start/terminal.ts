// What the parts write for whoever looks at the terminal.

/** A warning that several parts give within this time has one cause, and is shown once. */
const SAME_CAUSE_MS = 10_000

/** Shows the lines of all parts; a warning that another part has just given is left to the log. */
export function createTerminal(write: (text: string) => void): (name: string, line: string) => void {
  const given = new Map<string, { name: string; at: number }>()
  return (name, line) => {
    const message = messageOf(line)
    const now = performance.now()
    for (const [old, { at }] of given) if (now - at > SAME_CAUSE_MS) given.delete(old)
    const before = given.get(message)
    if (before !== undefined && before.name !== name) return
    given.set(message, { name, at: now })
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

// Variables that hold several values.

/** The parts of a comma-separated text, trimmed; empty parts are left out. */
export function list(text: string): string[] {
  return text
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '')
}

// Variables that hold several values.

/** The parts of a text between its commas, without the blanks around them; empty parts are left out. */
export function list(text: string): string[] {
  return text
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '')
}

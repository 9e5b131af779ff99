// Rows as lines of a file that spreadsheets read.

/** A line of CSV. A text that a spreadsheet would take for a formula begins with an apostrophe; an amount below zero is none. */
export function csvLine(values: (string | number | null | undefined)[]): string {
  const cells = values.map((value) => {
    const text = String(value ?? '')
    const is_formula = typeof value === 'string' && /^[=+\-@\t\r]/.test(text) && !/^-\d+(\.\d+)?$/.test(text)
    const kept = is_formula ? `'${text}` : text
    return /[",\n\r]/.test(kept) ? `"${kept.replaceAll('"', '""')}"` : kept
  })
  return `${cells.join(',')}\r\n`
}

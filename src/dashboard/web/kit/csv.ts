// Rows as lines of a file that spreadsheets read.

/** What begins a formula, also after spaces, and after what separates cells in some countries. */
const FORMULA = /(?:^|[;\t])\s*[=+\-@\t\r]/
const AMOUNT = /^-\d+(\.\d+)?$/

/** A line of CSV. A text that a spreadsheet would take for a formula begins with an apostrophe; an amount below zero is none. */
export function csvLine(values: (string | number | null | undefined)[]): string {
  const cells = values.map((value) => {
    const text = String(value ?? '')
    const is_formula = typeof value === 'string' && FORMULA.test(text) && !AMOUNT.test(text)
    const kept = is_formula ? `'${text}` : text
    // Where a semicolon or a tab separates cells, quotes keep what follows it in the same one.
    return /[",;\t\n\r]|^\s|\s$/.test(kept) ? `"${kept.replaceAll('"', '""')}"` : kept
  })
  return `${cells.join(',')}\r\n`
}

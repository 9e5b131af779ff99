// CSV lines for spreadsheets.

/**
 * Positions before a formula: at the start of a cell, after spaces, after a separator of other locales or a line break.
 * Includes the full-width and small forms of the operators, which some spreadsheets accept.
 */
const FORMULA_STARTS = /(?:^|(?<=[;\t\r\n]))(?=\s*[=+\-@＝＋－＠﹦﹢﹣﹫])|^(?=\s*[\t\r])/g
const NUMBER = /^[+-]?\d+(\.\d+)?$/
/** The byte order mark. Without it, Excel does not read the file as UTF-8. */
export const UTF8_BOM = '\uFEFF'

/** A line of CSV. Text that a spreadsheet would run as a formula gets an apostrophe; signed numbers do not. */
export function csvLine(values: (string | number | null | undefined)[]): string {
  const cells = values.map((value) => {
    const text = String(value ?? '')
    const escaped =
      typeof value === 'string' && !NUMBER.test(text) ? text.replaceAll(FORMULA_STARTS, "'") : text
    return /[",;\t\n\r]|^\s|\s$/.test(escaped) ? `"${escaped.replaceAll('"', '""')}"` : escaped
  })
  return `${cells.join(',')}\r\n`
}

// Rows as lines of a file that spreadsheets read.

/** Before what begins a formula, also in the wide and small forms that some countries' spreadsheets take, after spaces, and after what separates cells in some countries, or lines. */
const FORMULA_STARTS = /(?:^|(?<=[;\t\r\n]))(?=\s*[=+\-@＝＋－＠﹦﹢﹣﹫])|^(?=\s*[\t\r])/g
const NUMBER = /^[+-]?\d+(\.\d+)?$/
/** At the beginning of a file it says that it is UTF-8: without it Excel reads letters such as `é` as two. */
export const UTF8_BOM = '\uFEFF'

/** A line of CSV. What a spreadsheet would take for a formula gets an apostrophe; a number with its sign is none. */
export function csvLine(values: (string | number | null | undefined)[]): string {
  const cells = values.map((value) => {
    const text = String(value ?? '')
    const escaped =
      typeof value === 'string' && !NUMBER.test(text) ? text.replaceAll(FORMULA_STARTS, "'") : text
    return /[",;\t\n\r]|^\s|\s$/.test(escaped) ? `"${escaped.replaceAll('"', '""')}"` : escaped
  })
  return `${cells.join(',')}\r\n`
}

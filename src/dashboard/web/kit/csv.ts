// Rows as lines of a file that spreadsheets read.

/** Before what begins a formula, also in the wide and small forms that some countries' spreadsheets take, after spaces, and after what separates cells in some countries, or lines. */
const FORMULAS = /(?:^|(?<=[;\t\r\n]))(?=\s*[=+\-@＝＋－＠﹦﹢﹣﹫])|^(?=\s*[\t\r])/g
const NUMBER = /^[+-]?\d+(\.\d+)?$/
/** At the beginning of a file it says that it is UTF-8: without it Excel reads letters such as `é` as two. */
export const CSV_MARK = '\uFEFF'

/** A line of CSV. What a spreadsheet would take for a formula gets an apostrophe; a number with its sign is none. */
export function csvLine(values: (string | number | null | undefined)[]): string {
  const cells = values.map((value) => {
    const text = String(value ?? '')
    const kept = typeof value === 'string' && !NUMBER.test(text) ? text.replaceAll(FORMULAS, "'") : text
    return /[",;\t\n\r]|^\s|\s$/.test(kept) ? `"${kept.replaceAll('"', '""')}"` : kept
  })
  return `${cells.join(',')}\r\n`
}

// What is kept of a receiver's answer.
const EXCERPT_CHARACTERS = 1000
/** As many bytes as that takes in UTF-8, and one character more. */
const EXCERPT_BYTES = 4 * (EXCERPT_CHARACTERS + 1)
/** The longest delay between two attempts is a day, and a receiver may ask for twice as much. */
const LONGEST_DELAY_MS = 48 * 60 * 60 * 1000
// oxlint-disable-next-line no-control-regex -- these are what is looked for
const NOT_TEXT = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/g

/** Its first 1,000 characters. What is no text, and what Postgres cannot store, becomes U+FFFD. */
export function excerptOf(chunks: readonly Buffer[]): string {
  if (chunks.length === 0) return ''
  const text = Buffer.concat(chunks).subarray(0, EXCERPT_BYTES).toString('utf8').replace(NOT_TEXT, '\ufffd')
  const cut = text.slice(0, EXCERPT_CHARACTERS)
  return cut.isWellFormed() ? cut : cut.slice(0, -1)
}

/** How long `Retry-After` (seconds, or a date) asks to wait: 0 to 48 h; null where it is missing or neither. */
export function retryAfterMs(value: string | undefined): number | null {
  const text = value?.trim() ?? ''
  const date = /^[A-Z][a-z]{2,8}, .+ GMT$/.test(text) ? Date.parse(text) : Number.NaN
  const delay_ms = /^\d+$/.test(text) ? Number(text) * 1000 : date - Date.now()
  return Number.isNaN(delay_ms) ? null : Math.min(Math.max(0, delay_ms), LONGEST_DELAY_MS)
}

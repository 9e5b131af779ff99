// The stored part of a receiver's answer.
const EXCERPT_BYTES = 1000
/** The size of the excerpt of a success, which people rarely read. */
const SUCCESS_EXCERPT_BYTES = 200
const MAX_CHARACTER_BYTES = 4
/** The cap for `Retry-After`: twice the longest delay between two attempts. */
const MAX_RETRY_AFTER_MS = 48 * 60 * 60 * 1000
// oxlint-disable-next-line no-control-regex -- matches control characters on purpose
const NOT_TEXT = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/g

/**
 * The start of the body as UTF-8: up to 1,000 bytes, or 200 bytes if the status is a success. Invalid bytes and
 * characters that PostgreSQL cannot store become U+FFFD.
 */
export function excerptOf(status: number, chunks: readonly Buffer[]): string {
  if (chunks.length === 0) return ''
  const max_bytes = status >= 200 && status < 300 ? SUCCESS_EXCERPT_BYTES : EXCERPT_BYTES
  // One character more than the excerpt, so that the cut does not split the last character. Replacements never shorten
  // the text.
  const prefix = Buffer.concat(chunks).subarray(0, max_bytes + MAX_CHARACTER_BYTES)
  const text = Buffer.from(prefix.toString('utf8').replace(NOT_TEXT, '\ufffd'))
  let end = Math.min(text.length, max_bytes)
  while (isInsideCharacter(text[end])) end -= 1
  return text.toString('utf8', 0, end)
}

function isInsideCharacter(byte: number | undefined): boolean {
  return byte !== undefined && (byte & 0b1100_0000) === 0b1000_0000
}

/** The delay of `Retry-After` (seconds or a date): 0 to 48 h; null if missing or invalid. */
export function retryAfterMs(value: string | undefined): number | null {
  const text = value?.trim() ?? ''
  const date = /^[A-Z][a-z]{2,8}, .+ GMT$/.test(text) ? Date.parse(text) : Number.NaN
  const delay_ms = /^\d+$/.test(text) ? Number(text) * 1000 : date - Date.now()
  return Number.isNaN(delay_ms) ? null : Math.min(Math.max(0, delay_ms), MAX_RETRY_AFTER_MS)
}

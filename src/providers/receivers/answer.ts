// What is kept of a receiver's answer.
const EXCERPT_BYTES = 1000
/** Of a success, which nobody looks into. */
const SUCCESS_EXCERPT_BYTES = 200
const MAX_CHARACTER_BYTES = 4
/** The longest delay between two attempts is a day, and a receiver may ask for twice as much. */
const MAX_RETRY_AFTER_MS = 48 * 60 * 60 * 1000
// oxlint-disable-next-line no-control-regex -- these are what is looked for
const NOT_TEXT = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/g

/**
 * How the body begins: up to 1,000 bytes in UTF-8, 200 where the status is a success. What is no text, and what Postgres
 * cannot store, becomes U+FFFD.
 */
export function excerptOf(status: number, chunks: readonly Buffer[]): string {
  if (chunks.length === 0) return ''
  const max_bytes = status >= 200 && status < 300 ? SUCCESS_EXCERPT_BYTES : EXCERPT_BYTES
  // One character more, so that none is broken before the cut. Nothing becomes shorter.
  const prefix = Buffer.concat(chunks).subarray(0, max_bytes + MAX_CHARACTER_BYTES)
  const text = Buffer.from(prefix.toString('utf8').replace(NOT_TEXT, '\ufffd'))
  let end = Math.min(text.length, max_bytes)
  while (isInsideCharacter(text[end])) end -= 1
  return text.toString('utf8', 0, end)
}

function isInsideCharacter(byte: number | undefined): boolean {
  return byte !== undefined && (byte & 0b1100_0000) === 0b1000_0000
}

/** How long `Retry-After` (seconds, or a date) asks to wait: 0 to 48 h; null where it is missing or neither. */
export function retryAfterMs(value: string | undefined): number | null {
  const text = value?.trim() ?? ''
  const date = /^[A-Z][a-z]{2,8}, .+ GMT$/.test(text) ? Date.parse(text) : Number.NaN
  const delay_ms = /^\d+$/.test(text) ? Number(text) * 1000 : date - Date.now()
  return Number.isNaN(delay_ms) ? null : Math.min(Math.max(0, delay_ms), MAX_RETRY_AFTER_MS)
}

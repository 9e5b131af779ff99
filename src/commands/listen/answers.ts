// What is said of answers that come from elsewhere, or do not come.

/** A text from elsewhere in one line that moves nothing on the terminal. */
export function terminalText(text: string): string {
  return text.replaceAll(/[\p{Cc}\p{Cf}]+/gu, ' ').slice(0, 300)
}

/** Why `fetch` has thrown, in a few words. `limit_ms`: how long the answer might take. */
export function fetchErrorText(error: unknown, limit_ms: number): string {
  if (!(error instanceof Error)) return terminalText(String(error))
  if (error.name === 'TimeoutError') return `nothing within ${limit_ms / 1000} s`
  const { cause } = error
  if (!(cause instanceof Error)) return terminalText(error.message)
  const { code } = cause as NodeJS.ErrnoException
  return terminalText(code ?? cause.message)
}

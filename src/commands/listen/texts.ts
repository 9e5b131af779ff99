// Texts about responses and failed requests, safe for a terminal.

/** An untrusted text as one line without control characters, at most 300 characters. */
export function terminalText(text: string): string {
  return text.replaceAll(/[\p{Cc}\p{Cf}]+/gu, ' ').slice(0, 300)
}

/** A short text for an error of `fetch`. `limit_ms`: the timeout of the request. */
export function fetchErrorText(error: unknown, limit_ms: number): string {
  if (!(error instanceof Error)) return terminalText(String(error))
  if (error.name === 'TimeoutError') return `no response within ${limit_ms / 1000} s`
  const { cause } = error
  if (!(cause instanceof Error)) return terminalText(error.message)
  const { code } = cause as NodeJS.ErrnoException
  return terminalText(code ?? cause.message)
}

// Texts about failed requests, safe for a terminal.
import { terminalText } from '../print.ts'

/** A short text for an error of `fetch`. `limit_ms`: the timeout of the request. */
export function fetchErrorText(error: unknown, limit_ms: number): string {
  if (!(error instanceof Error)) return terminalText(String(error))
  if (error.name === 'TimeoutError') return `no response within ${limit_ms / 1000} s`
  const { cause } = error
  if (!(cause instanceof Error)) return terminalText(error.message)
  const { code } = cause as NodeJS.ErrnoException
  return terminalText(code ?? cause.message)
}

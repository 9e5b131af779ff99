// Maps Twilio's error codes, from answers and callbacks, to failures.
import type { MessageFailure } from '#core/outcome.ts'

/** Error codes that have a failure code of their own. `message` is used if Twilio sends no text. */
const FAILURES_BY_CODE: Readonly<Record<string, Pick<MessageFailure, 'code' | 'message'>>> = {
  21211: { code: 'invalid_number', message: 'The number is not valid.' },
  21614: { code: 'invalid_number', message: 'The number cannot receive SMS.' },
  21610: { code: 'opted_out', message: 'The number has opted out.' },
  21612: { code: 'unreachable', message: 'The number cannot be reached from this sender.' },
  30003: { code: 'unreachable', message: 'The phone cannot be reached.' },
}
const MAX_TEXT_LENGTH = 500
/**
 * The length to which a report is cut before numbers are removed: the pattern's run time grows faster than the text.
 */
const MAX_REPORT_LENGTH = 2_000
/** A phone number in any notation: plus, brackets, spaces, hyphens and dots between the digits. */
const NUMBER = /[+(]*\d[\d\s().\-/]{4,}\d/g

/** The failure for an error code of Twilio. `reported`: Twilio's text, which may contain numbers. */
export function twilioFailure(code: number | null, reported = ''): MessageFailure {
  const failure = code === null ? undefined : FAILURES_BY_CODE[code]
  const message =
    redacted(reported) || failure?.message || `Twilio failed${code === null ? '' : ` with error ${code}`}.`
  return {
    code: failure?.code ?? 'provider_error',
    message,
    provider_code: code === null ? null : String(code),
  }
}

/** The text without phone numbers, storable. */
function redacted(text: string): string {
  return text
    .slice(0, MAX_REPORT_LENGTH)
    .replaceAll(/\p{Cc}+/gu, ' ')
    .replaceAll(NUMBER, '[number]')
    .trim()
    .slice(0, MAX_TEXT_LENGTH)
    .toWellFormed()
}

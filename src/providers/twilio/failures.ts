// Twilio's codes of errors in our words, whether an answer or a callback brought them.
import type { MessageFailure } from '#core/outcome.ts'

/** The codes that mean something particular to us, each with what it says where Twilio's own text is not there. */
const KNOWN_FAILURES: Readonly<Record<string, Pick<MessageFailure, 'code' | 'message'>>> = {
  21211: { code: 'invalid_number', message: 'The number is not valid.' },
  21614: { code: 'invalid_number', message: 'The number cannot receive SMS.' },
  21610: { code: 'opted_out', message: 'The number has opted out.' },
  21612: { code: 'unreachable', message: 'The number cannot be reached from this sender.' },
  30003: { code: 'unreachable', message: 'The phone cannot be reached.' },
}
const MAX_TEXT_LENGTH = 500
/** So much of Twilio's text is read: to find numbers takes time that grows faster than it. */
const MAX_REPORT_LENGTH = 2_000
/** However it is written: a plus, brackets, spaces, hyphens and dots between the digits. */
const NUMBER = /[+(]*\d[\d\s().\-/]{4,}\d/g

/** The failure that a code of Twilio's stands for. `reported`: Twilio's own text, which may name numbers. */
export function twilioFailure(code: number | null, reported = ''): MessageFailure {
  const failure = code === null ? undefined : KNOWN_FAILURES[code]
  const message =
    redacted(reported) || failure?.message || `Twilio failed${code === null ? '' : ` with error ${code}`}.`
  return {
    code: failure?.code ?? 'provider_error',
    message,
    provider_code: code === null ? null : String(code),
  }
}

/** Without numbers, and as it can be stored. */
function redacted(text: string): string {
  return text
    .slice(0, MAX_REPORT_LENGTH)
    .replaceAll(/\p{Cc}+/gu, ' ')
    .replaceAll(NUMBER, '[number]')
    .trim()
    .slice(0, MAX_TEXT_LENGTH)
    .toWellFormed()
}

// Applies a scripted fault to an SMTP conversation.
import { setTimeout as sleep } from 'node:timers/promises'
import { countHit, holdRequest, type Fault, type Faults } from '../shared/faults.ts'

/** `reply`: a complete line to send. `partial`: the part of a line to send before the connection is cut. */
export type SmtpFaultOutcome =
  | { kind: 'continue' }
  | { kind: 'cut'; partial: string }
  | { kind: 'reply'; line: string }

/** Waits for the delay and the release of the fault, if it has them. Returns its effect. `due`: the regular reply. */
export async function applySmtpFault(faults: Faults, fault: Fault, due: string): Promise<SmtpFaultOutcome> {
  if (fault.action === null) countHit(faults, fault)
  if (fault.delay_ms > 0) await sleep(fault.delay_ms, undefined, { ref: false })
  if (fault.action === 'hold') {
    const released = holdRequest(fault)
    countHit(faults, fault)
    await released
  } else if (fault.action !== null) countHit(faults, fault)
  switch (fault.action) {
    case 'drop':
      return { kind: 'cut', partial: '' }
    case 'cut_body':
      return { kind: 'cut', partial: due.slice(0, due.length >> 1) }
    case 'refuse_400':
      return { kind: 'reply', line: fault.code ?? '554 5.0.0 Refused' }
    case 'refuse_401':
      return { kind: 'reply', line: '535 5.7.8 Authentication credentials invalid' }
    case 'rate_limited_429':
      return { kind: 'reply', line: '421 4.7.0 Too many emails, try again later' }
    case 'error_500':
    case 'error_500_unstored':
    case 'conflict_409':
    case 'html_503':
      return { kind: 'reply', line: '451 4.3.0 Local error in processing' }
    case 'empty_200':
    case 'string_ok':
      return { kind: 'reply', line: 'OK' }
    // Delays and holds, which are over, and `still_processing`, which does not apply to SMTP.
    default:
      return { kind: 'continue' }
  }
}

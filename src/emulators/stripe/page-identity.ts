// The hosted verification page, and the section of the emulator's page that lists verification sessions.
import { CHECK_FAILURES } from '#providers/sandbox/stripe/identity.ts'
import type { Store } from '#providers/sandbox/stripe/store.ts'
import type { VerificationSession } from '#providers/sandbox/stripe/versions.ts'
import { choice, document, section, type Cell } from '../shared/html.ts'
import { buttons, latest, metadataText, time, type StatusButton } from './page-parts.ts'

/** The hosted page: the visitor chooses the result of the check. */
export function verificationPage({ id }: VerificationSession): string {
  const form = (status: string, label: string, more = '') =>
    `<form method="post" action="/_emulator/identity/${id}/submit"><input type="hidden" name="status" value="${status}">${more} <button>${label}</button></form>`
  return document(
    'Verify your identity',
    `<p>This emulator checks nothing. Choose the result of the verification.</p><div class="forms">
    ${form('verified', 'Verified')}
    ${form('processing', 'Still being checked')}
    ${form('requires_input', 'Not verified', choice('reason', 'because of', Object.keys(CHECK_FAILURES)))}
    ${form('canceled', 'Canceled')}</div>`,
  )
}

export function verificationText(text: string): string {
  return document('Verify your identity', `<p>${text}</p>`)
}

export function sessionSection({ sessions }: Store): string {
  return section(
    'Identity',
    ['id', 'status', 'set to', 'because of', 'type', 'created', 'metadata'],
    latest(sessions).map(sessionRow),
  )
}

const ENDS: StatusButton[] = [
  ['verified', 'Verified'],
  ['requires_input', 'Not verified'],
  ['canceled', 'Canceled'],
]
const NEXT_STATUSES: Partial<Record<VerificationSession['status'], StatusButton[]>> = {
  requires_input: [['processing', 'Being checked'], ...ENDS],
  processing: ENDS,
}

function sessionRow(session: VerificationSession): Cell[] {
  const { id, status, last_error, type, created, metadata, redaction } = session
  const moves = buttons('settle_session', id, NEXT_STATUSES[status])
  const full_status = redaction === null ? status : `${status}, redaction ${redaction}`
  return [id, full_status, moves, last_error?.code ?? '', type, time(created), metadataText(metadata)]
}

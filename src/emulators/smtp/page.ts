// The inbox page of the SMTP emulator: emails, commands, refusals and faults.
import { answered, faultSection, refusalRow, REFUSAL_COLUMNS } from '../shared/fault-page.ts'
import { button, cell, document, escape, section } from '../shared/html.ts'
import { latestRequests } from '../shared/requests.ts'
import { latestMessages, acceptedMessageCount, PHASES, readMessage, type SmtpEmulator } from './emulator.ts'
import { quantity } from '#core/describe.ts'

const MAX_ROWS = 100
const MAX_COMMANDS = 25
const REFRESH_S = 5
const TRIGGERS = [
  ['bounce.example', 'is refused permanently'],
  ['defer.example', 'is refused temporarily'],
  ['reject.example', 'is refused after the text'],
  ['lost.example', 'is accepted, and the reply is lost'],
] as const

/** The page at `/`. The query `refresh` reloads it every few seconds. */
export function inboxPage(emulator: SmtpEmulator, query: string): string {
  const { smtp_url, requests, faults } = emulator
  const refreshing = query === 'refresh'
  const refused = latestRequests(
    requests,
    MAX_COMMANDS,
    ({ refusal, fault }) => refusal !== null || fault !== null,
  )
  const messages = latestMessages(emulator)
  const triggers = TRIGGERS.map(([domain, what]) => `to <code>*@${domain}</code> ${what}`).join(', ')
  const body = [
    `<p>Email that is sent to <code>${escape(smtp_url)}</code> stays here and is not delivered. ${quantity(acceptedMessageCount(emulator), 'email')} accepted.</p>`,
    `<p>An email ${triggers}.</p>`,
    `<p>${refreshing ? `Shown again every ${REFRESH_S} s. <a href="/">Stop</a>` : `<a href="/">Show again</a> or <a href="/?refresh">every ${REFRESH_S} s</a>`}</p>`,
    section(
      'Emails',
      ['received', 'subject', 'from', 'to', 'bytes'],
      messages.slice(0, MAX_ROWS).map((message) => {
        const { headers } = readMessage(emulator, message)
        const subject = headers['subject'] ?? ''
        return [
          message.received_at,
          cell(
            `<a href="/messages/${message.id}">${escape(subject.trim() === '' ? '(no subject)' : subject)}</a>`,
          ),
          headers['from'] ?? message.sender,
          message.to.join(', '),
          String(message.raw.length),
        ]
      }),
      messages.length > 0
        ? `<div class="forms">${button('empty', 'Delete all', {})}${messages.length > MAX_ROWS ? `<p>The latest ${MAX_ROWS} of ${messages.length}.</p>` : ''}</div>`
        : '',
    ),
    faultSection(faults, PHASES),
    section('Refusals and faults met', REFUSAL_COLUMNS, refused.map(refusalRow)),
    section(
      'Commands',
      ['at', 'command', 'answer', 'Message-ID', 'conversation'],
      latestRequests(requests, MAX_COMMANDS).map(({ at, method, status, idempotency_key, request_id }) => [
        at,
        method,
        answered(status),
        idempotency_key ?? '',
        request_id,
      ]),
    ),
  ]
  const head = refreshing ? `<meta http-equiv="refresh" content="${REFRESH_S}">` : ''
  return document('Inbox', body.join('\n'), head)
}

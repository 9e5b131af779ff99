// The page of the Twilio emulator: messages, a form for inbound messages, requests, refusals and faults.
import { answered, faultSection, refusalRow, REFUSAL_COLUMNS } from '../shared/fault-page.ts'
import { document, escape, section } from '../shared/html.ts'
import { latestRequests } from '../shared/requests.ts'
import { acceptedSmsCount, newestMessages, SMS_FAULT_TARGETS, type TwilioEmulator } from './emulator.ts'
import { quantity } from '#core/describe.ts'

const MAX_ROWS = 25
const REFRESH_S = 5
const NUMBERS = [
  ['+15005550001', 'not valid (21211)'],
  ['+15005550002', 'not reachable (21612)'],
  ['+15005550003', 'not permitted (21408)'],
  ['+15005550004', 'opted out (21610)'],
  ['+15005550009', 'not a mobile phone (21614)'],
  ['+15005550500', 'fails with 500'],
  ['+15005550599', 'is accepted, and the answer is lost'],
] as const

/** The page at `/`. The query `refresh` reloads it every few seconds. */
export function twilioPage(emulator: TwilioEmulator, query: string): string {
  const { url, requests, faults, account_sid } = emulator
  const refreshing = query === 'refresh'
  const refused = latestRequests(
    requests,
    MAX_ROWS,
    ({ refusal, fault }) => refusal !== null || fault !== null,
  )
  const numbers = NUMBERS.map(([number, what]) => `<code>${number}</code> ${what}`).join(', ')
  const field = (name: string) =>
    `<label>${name} <input name="${name}" size="${name === 'body' ? 24 : 14}"></label>`
  const body = [
    `<p>An emulator of Twilio at <code>${escape(url)}</code>, account <code>${escape(account_sid)}</code>. Messages stay here and reach no phone. ${quantity(acceptedSmsCount(emulator), 'message')}, ${quantity(requests.total, 'request')}.</p>`,
    `<p>Test numbers: ${numbers}.</p>`,
    `<p>${refreshing ? `Shown again every ${REFRESH_S} s. <a href="/">Stop</a>` : `<a href="/">Show again</a> or <a href="/?refresh">every ${REFRESH_S} s</a>`}</p>`,
    section(
      'Messages',
      ['at', 'to', 'from', 'text', 'status', 'id'],
      newestMessages(emulator)
        .slice(0, MAX_ROWS)
        .map(({ created_ms, to, from, messaging_service_sid, body, status, error_code, sid }) => [
          new Date(created_ms).toISOString(),
          to,
          from ?? messaging_service_sid ?? '',
          body,
          error_code === null ? status : `${status} (${error_code})`,
          sid,
        ]),
      `<div class="forms"><form method="post" action="/_emulator/page/inbound">${['from', 'to', 'body'].map(field).join(' ')} <button>Send from a phone</button></form></div>`,
    ),
    faultSection(faults, Object.keys(SMS_FAULT_TARGETS)),
    section('Refusals and faults met', REFUSAL_COLUMNS, refused.map(refusalRow)),
    section(
      'Requests',
      ['at', 'request', 'answer', 'request id'],
      latestRequests(requests, MAX_ROWS).map(({ at, method, path, status, request_id }) => [
        at,
        `${method} ${path}`,
        answered(status),
        request_id,
      ]),
    ),
  ]
  const head = refreshing ? `<meta http-equiv="refresh" content="${REFRESH_S}">` : ''
  return document('Twilio emulator', body.join('\n'), head)
}

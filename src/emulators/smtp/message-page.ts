// The page of an email: its HTML, its source and its attachments.
import { document, cell, escape, section, sendPage, type Cell } from '../shared/html.ts'
import { problemPage } from '../shared/fault-page.ts'
import { accessProblemOf } from '../shared/guard.ts'
import { send, type Exchange } from '../shared/http.ts'
import { readMessage, type InboxMessage, type SmtpEmulator } from './emulator.ts'
import { InboxRefusal } from './errors.ts'
import type { ReadEmail } from './mime.ts'

/** The policy for untrusted content of emails: no scripts, no external resources, no forms. */
const POLICY =
  "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; base-uri 'none'; frame-ancestors 'self'"
/** Headers for unsubscribing and signature, shown in a section of their own. */
const REPORTED_HEADERS = ['list-unsubscribe', 'list-unsubscribe-post', 'dkim-signature'] as const

/** Handles every request except the inbox and the controls. `host`: the listen address. */
export function answerMessage(emulator: SmtpEmulator, host: string, exchange: Exchange): void {
  const { method, path, request, response } = exchange
  const refusal = accessProblemOf(request, host)
  if (refusal !== null) return send(response, 403, {}, new InboxRefusal(403, refusal).body)
  const [, resource, id, part, index] = path.split('/')
  const message = emulator.messages.find((each) => each.id === id)
  if (method !== 'GET' || resource !== 'messages' || message === undefined)
    return sendPage(response, 404, problemPage('There is no such email, or it was deleted.'))
  const email = readMessage(emulator, message)
  const attachment = part === 'attachments' ? email.attachments[Number(index)] : undefined
  if (part === undefined) sendPage(response, 200, pageOf(message, email), null, true)
  else if (part === 'html')
    send(
      response,
      200,
      { 'content-security-policy': POLICY, 'x-content-type-options': 'nosniff' },
      email.html ?? '',
      'text/html; charset=utf-8',
    )
  else if (part === 'raw') download(exchange, message.raw, `${message.id}.eml`)
  else if (attachment !== undefined) download(exchange, attachment.content, attachment.filename)
  else sendPage(response, 404, problemPage('There is no such part of this email.'))
}

/** Sends a download that browsers do not render. */
function download({ response }: Exchange, content: Buffer, filename: string): void {
  response.writeHead(200, {
    'content-type': 'application/octet-stream',
    'content-length': content.length,
    'content-disposition': `attachment; filename*=UTF-8''${encodeURIComponent(filename.toWellFormed()).replaceAll(/['()*]/g, escapedCode)}`,
    'content-security-policy': POLICY,
    'x-content-type-options': 'nosniff',
  })
  response.end(content)
}

function escapedCode(character: string): string {
  return `%${character.codePointAt(0)!.toString(16)}`
}

function pageOf(message: InboxMessage, { headers, text, html, attachments }: ReadEmail): string {
  const { id, sender, to, raw, received_at } = message
  const facts = [
    ['from', headers['from'] ?? ''],
    ['to', headers['to'] ?? ''],
    ['cc', headers['cc'] ?? ''],
    ['envelope from', sender],
    ['envelope to', to.join(', ')],
    ['received', received_at],
    ['Message-ID', headers['message-id'] ?? ''],
  ].filter(([, value]) => value !== '')
  const reported = REPORTED_HEADERS.map((name): Cell[] => [name, headers[name] ?? 'none'])
  const files = attachments.map(({ filename, content_type, content }, at): Cell[] => [
    cell(`<a href="/messages/${id}/attachments/${at}">${escape(filename)}</a>`),
    content_type,
    String(content.length),
  ])
  const body = [
    `<p><a href="/">All emails</a> · <a href="/messages/${id}/raw">Download the source</a></p>`,
    section('Envelope', ['', ''], facts),
    ...(html === null
      ? []
      : [
          `<section><h2>HTML</h2><iframe sandbox="" referrerpolicy="no-referrer" title="The HTML of this email" src="/messages/${id}/html"></iframe></section>`,
        ]),
    ...(text === null ? [] : [`<section><h2>Text</h2><pre tabindex="0">${escape(text)}</pre></section>`]),
    section('Attachments', ['name', 'type', 'bytes'], files),
    section('Unsubscribing and signature', ['', ''], reported),
    section(
      'Headers',
      ['', ''],
      Object.entries(headers).map(([name, value]) => [name, value]),
    ),
    `<section><h2>Source</h2><pre tabindex="0">${escape(raw.toString('utf8'))}</pre></section>`,
  ]
  return document(escape(headers['subject'] ?? '') || '(no subject)', body.join('\n'))
}

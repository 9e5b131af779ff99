// Classifies the end of an SMTP conversation as the outcome of the email.
import type { MessageFailure } from '#core/outcome.ts'
import type { RefusedRecipient, SendOutcome } from '../email.ts'
import type { ConversationEnd, SmtpError } from './connections.ts'
import type { Envelope } from './envelope.ts'

type Unsent = Exclude<SendOutcome<never>, { kind: 'done' | 'ambiguous' }>
type Reply = { code: number; enhanced: string | null; text: string }

/** A pattern that finds the user name of the login in a text; null: no login. */
type LoginPattern = RegExp | null

type ReplyContext = Pick<Envelope, 'original_recipients'> & { login: LoginPattern }

const MAX_TEXT_LENGTH = 500
/** The length to which a reply is cut before addresses are removed. The cut may split the last address. */
const MAX_REPLY_LENGTH = 2_000
/** Replies that demand a login, or another login. */
const LOGIN_REPLIES = [530, 534, 535, 538]
/** The reply with which the server closes the connection. */
const CLOSING = 421
// Replaces replies about the login or the network in texts for tenants: only operators see these replies.
const LOGIN_REFUSED = 'The server refused the login.'
const CONNECTION_REFUSED = 'The server refused the connection.'
const CONNECTION_FAILED = 'The connection failed.'
/** The minimum length of the local part of a user name that is removed from texts: a shorter one is too common. */
const MIN_NAME_LENGTH = 4
/** The reply to a message that is too large. */
const TOO_LARGE = 552

/** The pattern that finds the user name of the SMTP URL in texts of the server. */
export function loginPatternOf(url: string): LoginPattern {
  const user = decodeURIComponent(new URL(url).username)
  if (user === '') return null
  const [local = ''] = user.split('@')
  const names = [user, local].filter((name) => name === user || name.length >= MIN_NAME_LENGTH)
  return new RegExp(
    `(?<![\\p{L}\\p{N}])(?:${names.map((name) => RegExp.escape(name)).join('|')})(?![\\p{L}\\p{N}])`,
    'giu',
  )
}

/** The outcome if no connection could be opened: nothing was sent. */
export function connectionFailureOf(error: SmtpError, login: LoginPattern): Unsent {
  const reply = replyOf(error, login)
  const is_login = error.code === 'EAUTH'
  const text = is_login ? LOGIN_REFUSED : reply === null ? textOf(error) : CONNECTION_REFUSED
  const failure = failureOf('connection_failed', reply && { ...reply, text }, text)
  const is_permanent = reply === null ? is_login : reply.code >= 500
  // Only an operator can solve a refused login, a missing TLS or an unverifiable certificate.
  const needs_operator = (is_login || error.code === 'ETLS') && is_permanent
  const kind = needs_operator || isUnverified(error) ? 'misconfigured' : 'retry'
  return { kind, failure, reported: reportedBy(error, login) }
}

/** Whether the connection was lost, or closed by the server, before the server could have accepted the email. */
export function isLostBeforeSend(end: ConversationEnd): boolean {
  if (end.kind !== 'failed' || end.data_requested || end.error === null) return false
  const { error } = end
  return (
    error.rejectedErrors === undefined &&
    (replyOf(error, null) === null ? !isLocalRefusal(error) : error.responseCode === CLOSING)
  )
}

/** The outcome of an email. `done` if the server accepted it for at least one recipient. */
export function outcomeOf(
  end: ConversationEnd,
  context: ReplyContext,
): SendOutcome<{ refused: RefusedRecipient[] }> {
  if (end.kind === 'accepted') {
    const refused = end.refused.map((error) => refusedRecipient(error, context))
    const connection_error = end.refused.find(isAboutConnection)
    return {
      kind: 'done',
      value: { refused },
      ...(connection_error && { reported: reportedBy(connection_error, context.login) }),
    }
  }
  const { error, data_requested, dot_sent } = end
  if (error === null) return lost('the answer was not awaited', dot_sent)
  if (error.rejectedErrors !== undefined && error.rejectedErrors.length > 0)
    return classifyAllRefused(error.rejectedErrors, context)
  const reply = replyOf(error, context.login)
  const reported = reportedBy(error, context.login)
  if (reply === null && data_requested) return lost(textOf(error), dot_sent, reported)
  return { ...refusal(error, reply), ...((reply === null || isAboutConnection(error)) && { reported }) }
}

/** The outcome if the connection ended after the server had requested the text, or if the call was aborted. */
function lost(reason: string, dot_sent: boolean, reported?: string): SendOutcome<never> {
  if (dot_sent) return { kind: 'ambiguous', reason: reported ?? reason }
  return { kind: 'retry', failure: failureOf('connection_failed', null, reason), reported }
}

/** The outcome if the server refused the complete email. */
function refusal(error: SmtpError, reply: Reply | null): Unsent {
  if (reply === null) {
    if (!isLocalRefusal(error))
      return { kind: 'retry', failure: failureOf('connection_failed', null, textOf(error)) }
    // Nodemailer refused the email before it sent anything.
    const code = error.code === 'EMESSAGE' ? 'content_refused' : 'provider_error'
    const text =
      code === 'content_refused'
        ? 'The email is larger than the server accepts.'
        : 'The envelope cannot be sent.'
    return { kind: 'declined', failure: failureOf(code, null, text) }
  }
  if (reply.code === CLOSING) return { kind: 'retry', failure: failureOf('connection_failed', reply) }
  if (LOGIN_REPLIES.includes(reply.code) && error.command === 'MAIL FROM')
    return { kind: 'misconfigured', failure: failureOf('connection_failed', reply) }
  if (reply.code < 400) return { kind: 'declined', failure: failureOf('provider_error', reply) }
  if (reply.code < 500) return { kind: 'retry', failure: failureOf('provider_error', reply) }
  const is_sender = error.command === 'MAIL FROM' && reply.code !== TOO_LARGE
  return { kind: 'declined', failure: failureOf(is_sender ? 'sender_refused' : 'content_refused', reply) }
}

/** The outcome if the server refused all recipients: `retry` if one of the refusals is temporary. */
function classifyAllRefused(errors: SmtpError[], context: ReplyContext): Unsent {
  const refused = errors.map((error) => refusedRecipient(error, context))
  const permanent = errors.findIndex((error) => (error.responseCode ?? 0) >= 500)
  const { address: _, deferred: __, ...failure } = refused[Math.max(0, permanent)]!
  const connection_error = errors.find(isAboutConnection)
  return {
    kind: refused.some(({ deferred }) => deferred) ? 'retry' : 'declined',
    failure,
    refused,
    ...(connection_error && { reported: reportedBy(connection_error, context.login) }),
  }
}

function refusedRecipient(error: SmtpError, { original_recipients, login }: ReplyContext): RefusedRecipient {
  const recipient = error.recipient ?? ''
  const failure = failureOf('recipient_refused', replyOf(error, login), 'The server refused the recipient.')
  const { responseCode = 0 } = error
  const deferred = responseCode >= 400 && responseCode < 500
  return { address: original_recipients.get(recipient) ?? recipient, deferred, ...failure }
}

/** The reply of the server; null if the error has no readable reply. */
function replyOf(error: SmtpError, login: LoginPattern): Reply | null {
  const { response, responseCode, code } = error
  if (response === undefined || responseCode === undefined) return null
  // The line is not a reply to a command.
  if (code === 'EPROTOCOL' && !/^[45]/.test(response)) return null
  const enhanced = /^\d{3}[ -](\d\.\d{1,3}\.\d{1,3})\b/.exec(response)?.[1] ?? null
  if (isAboutConnection(error))
    return {
      code: responseCode,
      enhanced,
      text: responseCode === CLOSING ? CONNECTION_REFUSED : LOGIN_REFUSED,
    }
  const text = response
    .split(/\r?\n/)
    .map((line) => line.replace(/^\d{3}[ -]?/, '').replace(/^\d\.\d{1,3}\.\d{1,3}\s+/, ''))
    .join(' ')
  return { code: responseCode, enhanced, text: redacted(text, login) }
}

/** Whether a reply is about the connection or the login, not about the email. */
function isAboutConnection({ code, responseCode = 0 }: SmtpError): boolean {
  return responseCode === CLOSING || code === 'EAUTH' || LOGIN_REPLIES.includes(responseCode)
}

/** The text for operators; undefined after a refused login, whose reply may repeat the password. */
function reportedBy({ code, response, message }: SmtpError, login: LoginPattern): string | undefined {
  return code === 'EAUTH' ? undefined : redacted(response ?? message, login)
}

function failureOf(code: MessageFailure['code'], reply: Reply | null, otherwise = ''): MessageFailure {
  return {
    code,
    message: (reply?.text ?? '') || otherwise || 'The server gave no reason.',
    provider_code: reply === null ? null : [reply.code, reply.enhanced].filter(Boolean).join(' '),
  }
}

/** The text, storable, without addresses (also escaped addresses) and without the login. */
function redacted(text: string, login: LoginPattern): string {
  const without_addresses = text
    .slice(0, MAX_REPLY_LENGTH)
    .replaceAll(/\p{Cc}+/gu, ' ')
    .replaceAll(/[^\s<>"'(),:;[\]]+(@|=40|%40)[^\s<>"'(),:;]+/gi, '<address>')
    .replaceAll(/<+address>+/g, '<address>')
  return (login === null ? without_addresses : without_addresses.replaceAll(login, '<login>'))
    .trim()
    .slice(0, MAX_TEXT_LENGTH)
    .toWellFormed()
}

/**
 * A text for an error without a reply. Contains neither host and port, which system messages contain, nor the server's
 * reply.
 */
function textOf({ code, originalCode, message, response }: SmtpError): string {
  return originalCode ?? (code === 'ETLS' || response !== undefined ? CONNECTION_FAILED : message)
}

/** Whether nodemailer refused the email before anything was sent. */
function isLocalRefusal({ code }: SmtpError): boolean {
  return code === 'EENVELOPE' || code === 'EMESSAGE'
}

/** Whether the certificate is expired, is for another host, or comes from an unknown authority. */
function isUnverified({ originalCode = '' }: SmtpError): boolean {
  return /CERT|SELF_SIGNED|UNABLE_TO_|HOSTNAME_MISMATCH/.test(originalCode)
}

// What the end of an SMTP conversation means for the email.
import type { MessageFailure } from '#core/outcome.ts'
import type { RefusedRecipient, SendOutcome } from '../email.ts'
import type { ConversationEnd, SmtpError } from './connections.ts'
import type { Envelope } from './envelope.ts'

type Unsent = Exclude<SendOutcome<never>, { kind: 'done' | 'ambiguous' }>
type Reply = { code: number; enhanced: string | null; text: string }

/** Matches the names of our login in a text; null: there is none. */
type LoginPattern = RegExp | null
/** `given`: the recipients as they were given, by how the server was told them. */
type ReplyContext = Pick<Envelope, 'original_recipients'> & { login: LoginPattern }

const MAX_TEXT_LENGTH = 500
/** More of it is not read: the address at its end may be cut. */
const MAX_REPLY_LENGTH = 2_000
/** The server wants us to log in, or to log in otherwise. */
const LOGIN_REPLIES = [530, 534, 535, 538]
/** The server ends the connection, whatever it answers. */
const CLOSING = 421
// Whoever sends an email knows neither our login nor our network: such replies are told to operators only.
const LOGIN_REFUSED = 'The server refused our login.'
const CONNECTION_REFUSED = 'The server refused the connection.'
const CONNECTION_FAILED = 'The connection failed.'
/** What stands before the at sign may be shorter, and then it is no name that anybody would know ours by. */
const MIN_NAME_LENGTH = 4
/** The whole is too large. */
const TOO_LARGE = 552

/** The names of the login that a URL has, for whatever the server says of them. */
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

/** Why no connection could be had: nothing was sent. */
export function connectionFailureOf(error: SmtpError, login: LoginPattern): Unsent {
  const reply = replyOf(error, login)
  const is_login = error.code === 'EAUTH'
  const text = is_login ? LOGIN_REFUSED : reply === null ? textOf(error) : CONNECTION_REFUSED
  const failure = failureOf('connection_failed', reply && { ...reply, text }, text)
  const refuses_us = reply === null ? is_login : reply.code >= 500
  // A certificate that cannot be verified, or a server that does not encrypt, stays so until somebody looks at it.
  const is_set_up = (is_login || error.code === 'ETLS') && refuses_us
  const kind = is_set_up || isUnverified(error) ? 'misconfigured' : 'retry'
  return { kind, failure, reported: reportedBy(error, login) }
}

/** Whether a connection was lost, or ended by the server, before it could have accepted anything. */
export function isLostBeforeSend(end: ConversationEnd): boolean {
  if (end.kind !== 'failed' || end.data_requested || end.error === null) return false
  const { error } = end
  return (
    error.rejectedErrors === undefined &&
    (replyOf(error, null) === null ? !isLocalRefusal(error) : error.responseCode === CLOSING)
  )
}

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
  if (error === null) return lost('no answer was waited for', dot_sent)
  if (error.rejectedErrors !== undefined && error.rejectedErrors.length > 0)
    return allRefused(error.rejectedErrors, context)
  const reply = replyOf(error, context.login)
  const reported = reportedBy(error, context.login)
  if (reply === null && data_requested) return lost(textOf(error), dot_sent, reported)
  return { ...refusal(error, reply), ...((reply === null || isAboutConnection(error)) && { reported }) }
}

/** The connection ended after the server had asked for the text, or it was not waited for. */
function lost(reason: string, dot_sent: boolean, reported?: string): SendOutcome<never> {
  if (dot_sent) return { kind: 'ambiguous', reason: reported ?? reason }
  return { kind: 'retry', failure: failureOf('connection_failed', null, reason), reported }
}

/** A definite no, to the whole email. */
function refusal(error: SmtpError, reply: Reply | null): Unsent {
  if (reply === null) {
    if (!isLocalRefusal(error))
      return { kind: 'retry', failure: failureOf('connection_failed', null, textOf(error)) }
    // Nodemailer itself refused: what no server would be told.
    const code = error.code === 'EMESSAGE' ? 'content_refused' : 'provider_error'
    const text =
      code === 'content_refused'
        ? 'The email is larger than the server takes.'
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

/** Another attempt may succeed where one of them may. */
function allRefused(errors: SmtpError[], context: ReplyContext): Unsent {
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
  const context = error.recipient ?? ''
  const failure = failureOf('recipient_refused', replyOf(error, login), 'The server refused the recipient.')
  const { responseCode = 0 } = error
  const deferred = responseCode >= 400 && responseCode < 500
  return { address: original_recipients.get(context) ?? context, deferred, ...failure }
}

/** Null where the error is about no reply that can be read. */
function replyOf(error: SmtpError, login: LoginPattern): Reply | null {
  const { response, responseCode, code } = error
  if (response === undefined || responseCode === undefined) return null
  // ReportedStatus unasked, so it is no reply to what we sent.
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

/** Whether a reply is about our connection or our login, and not about the email. */
function isAboutConnection({ code, responseCode = 0 }: SmtpError): boolean {
  return responseCode === CLOSING || code === 'EAUTH' || LOGIN_REPLIES.includes(responseCode)
}

/** What operators are told; undefined for what is answered to a login, which may repeat the password. */
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

/** Without addresses, also those written for a link or a forwarding server, without our login, and as it can be stored. */
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

/** Without the host and the port, which the messages of the system name, and without what the server said. */
function textOf({ code, originalCode, message, response }: SmtpError): string {
  return originalCode ?? (code === 'ETLS' || response !== undefined ? CONNECTION_FAILED : message)
}

/** Refused by nodemailer before anything was sent. */
function isLocalRefusal({ code }: SmtpError): boolean {
  return code === 'EENVELOPE' || code === 'EMESSAGE'
}

/** The server's certificate: expired, of another host, of nobody known. */
function isUnverified({ originalCode = '' }: SmtpError): boolean {
  return /CERT|SELF_SIGNED|UNABLE_TO_|HOSTNAME_MISMATCH/.test(originalCode)
}

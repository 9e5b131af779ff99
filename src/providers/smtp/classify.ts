// What the end of an SMTP conversation means for the email.
import type { MessageFailure } from '#core/outcome.ts'
import type { RefusedRecipient, SendOutcome } from '../email.ts'
import type { ConversationEnd, SmtpError } from './connections.ts'
import type { Envelope } from './envelope.ts'

type Unsent = Exclude<SendOutcome<never>, { kind: 'done' | 'ambiguous' }>
type Reply = { code: number; enhanced: string | null; text: string }

const LONGEST_TEXT = 500
/** More of it is not read: the address at its end may be cut. */
const LONGEST_REPLY = 2_000
/** The server wants us to log in, or to log in otherwise. */
const LOGIN_REPLIES = [530, 534, 535, 538]
/** What is answered to a login may repeat the user and the password: nothing of it is shown. */
const LOGIN_REFUSED = 'The server refused our login.'
/** The whole is too large. */
const TOO_LARGE = 552

/** Why no connection could be had: nothing was sent. */
export function unconnected(error: SmtpError): Unsent {
  const reply = replyOf(error)
  const is_login = error.code === 'EAUTH'
  const said = is_login && reply !== null ? { ...reply, text: LOGIN_REFUSED } : reply
  const failure = failureOf('connection_failed', said, is_login ? LOGIN_REFUSED : textOf(error))
  const refuses_us = reply === null ? is_login : reply.code >= 500
  // A certificate that cannot be verified, or a server that does not encrypt, stays so until somebody looks at it.
  const is_set_up = (is_login || error.code === 'ETLS') && refuses_us
  return { kind: is_set_up || isUnverified(error) ? 'misconfigured' : 'retry', failure }
}

/** Whether a connection was lost, or ended by the server, before it could have accepted anything. */
export function lostUnsent(end: ConversationEnd): boolean {
  if (end.kind !== 'failed' || end.text_asked || end.error === null) return false
  const { error } = end
  return error.rejectedErrors === undefined && (replyOf(error) === null ? !isOurs(error) : isClosing(error))
}

export function outcomeOf(
  end: ConversationEnd,
  envelope: Envelope,
): SendOutcome<{ refused: RefusedRecipient[] }> {
  if (end.kind === 'accepted')
    return {
      kind: 'done',
      value: { refused: end.refused.map((error) => refusedRecipient(error, envelope)) },
    }
  const { error, text_asked, dot_sent } = end
  if (error === null) return lost('no answer was waited for', dot_sent)
  if (error.rejectedErrors !== undefined && error.rejectedErrors.length > 0)
    return allRefused(error.rejectedErrors, envelope)
  const reply = replyOf(error)
  if (reply === null && text_asked) return lost(textOf(error), dot_sent)
  return refusal(error, reply)
}

/** The connection ended after the server had asked for the text, or it was not waited for. */
function lost(reason: string, dot_sent: boolean): SendOutcome<never> {
  if (dot_sent) return { kind: 'ambiguous', reason }
  return { kind: 'retry', failure: failureOf('connection_failed', null, reason) }
}

/** A definite no, to the whole email. */
function refusal(error: SmtpError, reply: Reply | null): Unsent {
  if (reply === null) {
    if (!isOurs(error)) return { kind: 'retry', failure: failureOf('connection_failed', null, textOf(error)) }
    // Nodemailer itself refused: what no server would be told.
    const code = error.code === 'EMESSAGE' ? 'content_refused' : 'provider_error'
    const text =
      code === 'content_refused'
        ? 'The email is larger than the server takes.'
        : 'The envelope cannot be sent.'
    return { kind: 'declined', failure: failureOf(code, null, text) }
  }
  if (reply.code === 421) return { kind: 'retry', failure: failureOf('connection_failed', reply) }
  if (LOGIN_REPLIES.includes(reply.code) && error.command === 'MAIL FROM')
    return { kind: 'misconfigured', failure: failureOf('connection_failed', reply) }
  if (reply.code < 400) return { kind: 'declined', failure: failureOf('provider_error', reply) }
  if (reply.code < 500) return { kind: 'retry', failure: failureOf('provider_error', reply) }
  const is_sender = error.command === 'MAIL FROM' && reply.code !== TOO_LARGE
  return { kind: 'declined', failure: failureOf(is_sender ? 'sender_refused' : 'content_refused', reply) }
}

/** Another attempt may succeed only where each of them may. */
function allRefused(errors: SmtpError[], envelope: Envelope): Unsent {
  const refused = errors.map((error) => refusedRecipient(error, envelope))
  const permanent = errors.findIndex((error) => (error.responseCode ?? 0) >= 500)
  const { address: _, ...failure } = refused[Math.max(0, permanent)]!
  return { kind: permanent >= 0 ? 'declined' : 'retry', failure, refused }
}

function refusedRecipient(error: SmtpError, { given }: Envelope): RefusedRecipient {
  const told = error.recipient ?? ''
  const failure = failureOf('recipient_refused', replyOf(error), 'The server refused the recipient.')
  return { address: given.get(told) ?? told, ...failure }
}

/** Null where the error is about no reply that can be read. */
function replyOf({ response, responseCode, code }: SmtpError): Reply | null {
  if (response === undefined || responseCode === undefined) return null
  // Said unasked, so it is no reply to what we sent.
  if (code === 'EPROTOCOL' && !/^[45]/.test(response)) return null
  const enhanced = /^\d{3}[ -](\d\.\d{1,3}\.\d{1,3})\b/.exec(response)?.[1] ?? null
  const text = response
    .split(/\r?\n/)
    .map((line) => line.replace(/^\d{3}[ -]?/, '').replace(/^\d\.\d{1,3}\.\d{1,3}\s+/, ''))
    .join(' ')
  return { code: responseCode, enhanced, text }
}

function failureOf(code: MessageFailure['code'], reply: Reply | null, otherwise = ''): MessageFailure {
  const text = reply === null || reply.text.trim() === '' ? otherwise : reply.text
  return {
    code,
    message: scrubbed(text) || 'The server gave no reason.',
    provider_code: reply === null ? null : [reply.code, reply.enhanced].filter(Boolean).join(' '),
  }
}

/** Without addresses, also those written for a link or a forwarding server, and as it can be stored. */
function scrubbed(text: string): string {
  return text
    .slice(0, LONGEST_REPLY)
    .replaceAll(/\p{Cc}+/gu, ' ')
    .replaceAll(/[^\s<>"'(),:;[\]]+(@|=40|%40)[^\s<>"'(),:;]+/gi, '<address>')
    .replaceAll(/<+address>+/g, '<address>')
    .trim()
    .slice(0, LONGEST_TEXT)
}

/** Without the host and the port, which the messages of the system name. */
function textOf({ originalCode, message }: SmtpError): string {
  return originalCode ?? message
}

function isClosing({ responseCode }: SmtpError): boolean {
  return responseCode === 421
}

/** Refused by nodemailer before anything was sent. */
function isOurs({ code }: SmtpError): boolean {
  return code === 'EENVELOPE' || code === 'EMESSAGE'
}

/** The server's certificate: expired, of another host, of nobody known. */
function isUnverified({ originalCode = '' }: SmtpError): boolean {
  return /CERT|SELF_SIGNED|UNABLE_TO_|HOSTNAME_MISMATCH/.test(originalCode)
}

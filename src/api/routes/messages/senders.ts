// The senders and headers that a tenant may use.
import type { Config } from '#core/config.ts'
import { SANDBOX_SENDERS } from '#core/config/providers.ts'
import { isSluiceHeader, controlsRelay } from '#core/email-headers.ts'
import { findSenderProblem } from '#core/email-sender.ts'
import { AppError } from '#core/errors.ts'
import type { Requester } from './requester.ts'
import type { EmailBody, SmsBody } from './bodies.ts'
import { domainOf } from './recipients.ts'

/** Throws if the tenant may not send from an address, or if the address is the system's own. */
export async function checkSender(
  requester: Requester,
  config: Config,
  { from, reply_to }: Pick<EmailBody, 'from' | 'reply_to'>,
): Promise<void> {
  const domains = from == null ? null : await requester.emailDomains()
  const problem = findSenderProblem(config, domains, { from, reply_to })
  if (problem === undefined) return
  if (problem.reason !== 'domain') {
    const [message, must_be] = REFUSALS[problem.reason]
    throw parameterError(problem.param, message, must_be)
  }
  const must_be =
    problem.domains.length === 0 ? 'must be left out' : `must be an address at ${problem.domains.join(', ')}`
  throw parameterError('from', `Email may not be from addresses at ${domainOf(from!)}.`, must_be)
}

const REFUSALS = {
  encoded_name: [
    'The display name of an address must not be encoded.',
    'must have a name that is not encoded',
  ],
  system: ["The system's own address may not be used.", 'must be another address'],
} as const

/**
 * The sender of an SMS. A tenant with its own senders may use no other sender, because replies go to the sender. Throws
 * if the tenant may not use the requested sender.
 */
export async function smsSenderOf(
  requester: Requester,
  config: Config,
  from: SmsBody['from'],
): Promise<string> {
  const senders = await requester.smsSenders()
  const sender = from ?? senders?.[0] ?? config.TWILIO_FROM ?? SANDBOX_SENDERS.sms
  if (from == null || senders === null || senders.includes(from)) return sender
  const must_be = senders.length === 0 ? 'must be left out' : `must be one of ${senders.join(', ')}`
  throw parameterError('from', `SMS may not be from ${from}.`, must_be)
}

/** Throws if a header could control the relay that forwards the email. */
export function checkHeaders(headers: EmailBody['headers'], allowed: readonly string[]): void {
  const name = Object.keys(headers ?? {}).find((each) => controlsRelay(each, allowed))
  if (name === undefined) return
  const param = `headers.${name}`
  if (isSluiceHeader(name))
    throw parameterError(
      param,
      `The header ${name} is not allowed: Sluice sets it.`,
      'is a header that Sluice sets',
    )
  throw parameterError(
    param,
    `The header ${name} is not allowed: it can control the relay that forwards the email. An operator can allow it with EMAIL_HEADERS_ALLOWED=${name}.`,
    'is a header that can control a relay',
  )
}

function parameterError(param: string, message: string, must_be: string): AppError {
  return new AppError('invalid_request', { message, param, details: [{ param, message: must_be }] })
}

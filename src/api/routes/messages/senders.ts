// In whose name a tenant may write, and by which headers.
import { need, type Config } from '#core/config.ts'
import { isOurHeader, steersRelay } from '#core/email-headers.ts'
import { AppError } from '#core/errors.ts'
import { hasEncodedName, passesFor } from '#core/mail-address.ts'
import type { Asker } from './asker.ts'
import type { EmailBody, SmsBody } from './bodies.ts'
import { domainOf } from './recipients.ts'

/** Throws where an address is not the tenant's to write from, or is the system's own. */
export async function checkSender(
  asker: Asker,
  { EMAIL_FROM_DOMAINS, SYSTEM_EMAIL_FROM }: Config,
  { from, reply_to }: Pick<EmailBody, 'from' | 'reply_to'>,
): Promise<void> {
  for (const [param, address] of [
    ['from', from],
    ['reply_to', reply_to],
  ] as const)
    checkName(param, address, SYSTEM_EMAIL_FROM)
  if (from == null) return
  const domains = (await asker.emailDomains()) ?? EMAIL_FROM_DOMAINS
  const is_limited = domains !== EMAIL_FROM_DOMAINS || domains.length > 0
  const domain = domainOf(from)
  if (!is_limited || domains.some((allowed) => allowed.toLowerCase() === domain)) return
  const must_be = domains.length === 0 ? 'must be left out' : `must be an address at ${domains.join(', ')}`
  throw refused('from', `Email may not be from addresses at ${domain}.`, must_be)
}

/**
 * The sender of an SMS: what people answer comes back to it, so a tenant with senders of its own has no other. Throws where
 * one is not the tenant's.
 */
export async function smsSenderOf(asker: Asker, config: Config, from: SmsBody['from']): Promise<string> {
  const senders = await asker.smsSenders()
  const sender = from ?? senders?.[0] ?? need(config, 'TWILIO_FROM')
  if (from == null || senders === null || senders.includes(from)) return sender
  const must_be = senders.length === 0 ? 'must be left out' : `must be one of ${senders.join(', ')}`
  throw refused('from', `SMS may not be from ${from}.`, must_be)
}

/** Throws for headers that would steer a relay. */
export function checkHeaders(headers: EmailBody['headers'], allowed: readonly string[]): void {
  const name = Object.keys(headers ?? {}).find((each) => steersRelay(each, allowed))
  if (name === undefined) return
  const param = `headers.${name}`
  if (isOurHeader(name))
    throw refused(param, `The header ${name} is not allowed: Sluice sets it.`, 'is a header that Sluice sets')
  throw refused(
    param,
    `The header ${name} is not allowed: it can steer the server that sends the email on. An operator can allow it with EMAIL_HEADERS_ALLOWED=${name}.`,
    'is a header that can steer a relay',
  )
}

function checkName(param: string, address: string | null | undefined, system: string | undefined): void {
  if (address == null) return
  if (hasEncodedName(address))
    throw refused(
      param,
      'The name of an address is written in its own letters.',
      'must have a name that is not encoded',
    )
  if (system !== undefined && passesFor(address, system))
    throw refused(param, "The system's own address may not be used.", 'must be another address')
}

function refused(param: string, message: string, must_be: string): AppError {
  return new AppError('invalid_request', { message, param, details: [{ param, message: must_be }] })
}

// Makes a message of what a caller sent: whom it is from, what it says, and by what it is found.
import type { Channel } from '#core/addresses.ts'
import { need } from '#core/config.ts'
import { AppError } from '#core/errors.ts'
import { isOneLine } from '#core/mail-address.ts'
import { segmentsOf } from '#core/segments.ts'
import type { RenderedTemplate } from '#domain/templates/template.ts'
import type { MessageContent, MessageEnvelope } from '#domain/messages/message.ts'
import { messageTerm } from '#domain/messages/terms.ts'
import type { ApiContext } from '../../context.ts'
import type { Asker } from './asker.ts'
import { sizeOf } from './attachments.ts'
import { fitsSms, MOST_SUBJECT, type EmailBody, type SmsBody } from './bodies.ts'
import { countryOf } from './recipients.ts'
import { checkHeaders, checkSender, smsSenderOf } from './senders.ts'
import { renderedText } from './texts.ts'

export type Composed = {
  envelope: MessageEnvelope
  content: MessageContent
  /** The hashes of the recipients, each once, in the order of the envelope. */
  addresses: string[]
  /** Files, base64. */
  files: string[]
  /** The hash of what an SMS is from. */
  sender: string | null
  terms: string[]
  tags: string[]
  segments: number | null
  encoding: string | null
}

/**
 * Throws what forbids it here: an address that email may not be from, a template that is not there or does not render.
 */
export async function composeEmail(
  { config, hashOf }: ApiContext,
  asker: Asker,
  body: EmailBody,
): Promise<Composed> {
  const { tenant_id } = asker
  await checkSender(asker, config, body)
  checkHeaders(body.headers, config.EMAIL_HEADERS_ALLOWED)
  const { subject = null, text = null, html = null } = body
  const given = { subject, text, html, body: null }
  const texts = await textsOf(asker, { channel: 'email', given, ...body })
  const addresses = new Map<string, string>()
  /** Those of the list that no list before has named. */
  const each = (list: string[] | null | undefined): string[] =>
    (list ?? []).filter((address) => {
      const hash = hashOf('email', address)
      if (addresses.has(hash)) return false
      addresses.set(hash, address)
      return true
    })
  const [to, cc, bcc] = [each(body.to), each(body.cc), each(body.bcc)]
  const hashes = Array.from(addresses.keys())
  const tags = [...new Set(body.tags)]
  const attachments = body.attachments ?? []
  return {
    envelope: {
      from: body.from ?? need(config, 'EMAIL_FROM'),
      to,
      cc: noneIsNull(cc),
      bcc: noneIsNull(bcc),
      reply_to: body.reply_to ?? null,
      subject: texts.subject,
      list_unsubscribe_url: body.list_unsubscribe_url ?? null,
    },
    content: {
      text: texts.text,
      html: texts.html,
      body: null,
      headers: body.headers ?? null,
      attachments: noneIsNull(
        attachments.map(({ content, ...about }) => ({ ...about, size: sizeOf(content) })),
      ),
      validity_s: null,
    },
    addresses: hashes,
    files: attachments.map(({ content }) => content),
    sender: null,
    terms: [
      ...hashes.map((hash) => messageTerm(tenant_id, 'to', hash)),
      ...tags.map((tag) => messageTerm(tenant_id, 'tag', tag)),
    ],
    tags,
    segments: null,
    encoding: null,
  }
}

/** The same of an SMS; throws also when none may go to the country of its number. */
export async function composeSms(
  { config, hashOf }: ApiContext,
  asker: Asker,
  body: SmsBody,
): Promise<Composed> {
  const { tenant_id } = asker
  checkCountry(body.to, config.SMS_COUNTRIES)
  const given = { subject: null, text: null, html: null, body: body.body ?? null }
  const texts = await textsOf(asker, { channel: 'sms', given, ...body })
  const from = await smsSenderOf(asker, config, body.from)
  const address = hashOf('sms', body.to)
  return {
    envelope: {
      from,
      to: [body.to],
      cc: null,
      bcc: null,
      reply_to: null,
      subject: null,
      list_unsubscribe_url: null,
    },
    content: {
      text: null,
      html: null,
      body: texts.body,
      headers: null,
      attachments: null,
      validity_s: body.validity_s ?? null,
    },
    addresses: [address],
    files: [],
    sender: hashOf('sms', from),
    terms: [messageTerm(tenant_id, 'to', address)],
    tags: [],
    ...segmentsOf(texts.body ?? ''),
  }
}

/** The texts that were given, or those of the template, which must be fit to be sent. */
async function textsOf(
  asker: Asker,
  {
    channel,
    given,
    template,
    variables,
  }: { channel: Channel; given: RenderedTemplate } & Pick<SmsBody, 'template' | 'variables'>,
): Promise<RenderedTemplate> {
  if (template == null) return given
  const rendered = await renderedText(asker, { channel, template, variables: variables ?? {} })
  const texts = { ...rendered, subject: given.subject ?? rendered.subject }
  const problem = channel === 'sms' ? problemOfSms(texts) : problemOfEmail(texts)
  if (problem !== null)
    throw new AppError('template_invalid', { message: problem, context: { line: null, variable: null } })
  return texts
}

function problemOfSms({ body }: RenderedTemplate): string | null {
  return body !== null && body !== '' && fitsSms(body)
    ? null
    : 'The template renders to no text, or to more than 1,600 characters (an emoji counts as two or more).'
}

function problemOfEmail({ subject, text, html }: RenderedTemplate): string | null {
  if (subject === null || subject === '' || subject.length > MOST_SUBJECT || !isOneLine(subject))
    return 'The subject must be one line of 1 to 998 characters.'
  return (text ?? '') === '' && (html ?? '') === '' ? 'The template renders to no text.' : null
}

function checkCountry(number: string, countries: readonly string[]): void {
  const country = countryOf(number)
  if (countries.length === 0 || (country !== undefined && countries.includes(country))) return
  throw new AppError('destination_not_allowed', { param: 'to', context: { country: country ?? null } })
}

function noneIsNull<Item>(list: Item[]): Item[] | null {
  return list.length === 0 ? null : list
}

// Composes a message from a request: its envelope, its content and its search terms.
import type { Channel } from '#core/addresses.ts'
import { SANDBOX_SENDERS } from '#core/config/providers.ts'
import { AppError } from '#core/errors.ts'
import { isOneLine } from '#core/mail-address.ts'
import { segmentsOf } from '#core/segments.ts'
import type { RenderedTemplate } from '#domain/templates/template.ts'
import type { MessageContent, MessageEnvelope } from '#domain/messages/message.ts'
import { messageTerm } from '#domain/messages/terms.ts'
import type { ApiContext } from '../../context.ts'
import type { Requester } from './requester.ts'
import { sizeOf } from './attachments.ts'
import { fitsSms, MAX_SUBJECT_LENGTH, type EmailBody, type SmsBody } from './bodies.ts'
import { countryOf } from './recipients.ts'
import { checkHeaders, checkSender, smsSenderOf } from './senders.ts'
import { renderTemplateTexts } from './texts.ts'

export type ComposedMessage = {
  envelope: MessageEnvelope
  content: MessageContent
  /** The hashes of the recipients, without duplicates, in the order of the envelope. */
  addresses: string[]
  /** The attachments, in base64. */
  files: string[]
  /** The hash of the sender of an SMS. */
  sender: string | null
  terms: string[]
  tags: string[]
  segments: number | null
  encoding: string | null
}

/**
 * Composes an email. Throws if the sender is not allowed, or if the template does not exist or does not render.
 */
export async function composeEmail(
  { config, hashOf }: ApiContext,
  requester: Requester,
  body: EmailBody,
): Promise<ComposedMessage> {
  const { tenant_id } = requester
  await checkSender(requester, config, body)
  checkHeaders(body.headers, config.EMAIL_HEADERS_ALLOWED)
  const { subject = null, text = null, html = null } = body
  const input_texts = { subject, text, html, body: null }
  const texts = await textsOf(requester, { channel: 'email', input_texts, ...body })
  const addresses = new Map<string, string>()
  /** The addresses of a list that no earlier list has. */
  const newAddresses = (list: string[] | null | undefined): string[] =>
    (list ?? []).filter((address) => {
      const hash = hashOf('email', address)
      if (addresses.has(hash)) return false
      addresses.set(hash, address)
      return true
    })
  const [to, cc, bcc] = [newAddresses(body.to), newAddresses(body.cc), newAddresses(body.bcc)]
  const hashes = Array.from(addresses.keys())
  const tags = [...new Set(body.tags)]
  const attachments = body.attachments ?? []
  return {
    envelope: {
      from: body.from ?? config.EMAIL_FROM ?? SANDBOX_SENDERS.email,
      to,
      cc: emptyToNull(cc),
      bcc: emptyToNull(bcc),
      reply_to: body.reply_to ?? null,
      subject: texts.subject,
      list_unsubscribe_url: body.list_unsubscribe_url ?? null,
    },
    content: {
      text: texts.text,
      html: texts.html,
      body: null,
      headers: body.headers ?? null,
      attachments: emptyToNull(
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

/** Composes an SMS. Throws like `composeEmail`, and if the country of the phone number is not allowed. */
export async function composeSms(
  { config, hashOf }: ApiContext,
  requester: Requester,
  body: SmsBody,
): Promise<ComposedMessage> {
  const { tenant_id } = requester
  checkCountry(body.to, config.SMS_COUNTRIES)
  const input_texts = { subject: null, text: null, html: null, body: body.body ?? null }
  const texts = await textsOf(requester, { channel: 'sms', input_texts, ...body })
  const from = await smsSenderOf(requester, config, body.from)
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

/** The texts of the request, or the rendered and validated texts of the template. */
async function textsOf(
  requester: Requester,
  {
    channel,
    input_texts,
    template,
    variables,
  }: { channel: Channel; input_texts: RenderedTemplate } & Pick<SmsBody, 'template' | 'variables'>,
): Promise<RenderedTemplate> {
  if (template == null) return input_texts
  const rendered = await renderTemplateTexts(requester, { channel, template, variables: variables ?? {} })
  const texts = { ...rendered, subject: input_texts.subject ?? rendered.subject }
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
  if (subject === null || subject === '' || subject.length > MAX_SUBJECT_LENGTH || !isOneLine(subject))
    return 'The subject must be one line of 1 to 998 characters.'
  return (text ?? '') === '' && (html ?? '') === '' ? 'The template renders to no text.' : null
}

function checkCountry(number: string, countries: readonly string[]): void {
  const country = countryOf(number)
  if (countries.length === 0 || (country !== undefined && countries.includes(country))) return
  throw new AppError('destination_not_allowed', { param: 'to', context: { country: country ?? null } })
}

function emptyToNull<Item>(list: Item[]): Item[] | null {
  return list.length === 0 ? null : list
}

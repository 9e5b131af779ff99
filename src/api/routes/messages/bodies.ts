// The bodies of requests that send messages.
import { z } from 'zod'
import { problemOfUrl } from '#core/tenant-urls.ts'
import type { Json } from '#core/db.ts'
import { anyJson } from '#core/json.ts'
import { hasLongWord } from '#core/mail-address.ts'
import { dateTime } from '#core/time.ts'
import { FEW_VALUES_ERROR, hasFewValues, idempotencyKey, metadata } from '../../body.ts'
import { attachment, MAX_ATTACHMENTS } from './attachments.ts'
import { singleLine, mailAddress, phoneNumber, smsSender } from './recipients.ts'

/** The maximum number of recipients of an email: to, cc and bcc together. */
const MAX_RECIPIENTS = 50
const MAX_TAGS = 10
const MAX_HEADERS = 50
const MAX_TEXT_LENGTH = 1_000_000
const MAX_SMS_LENGTH = 1600
export const MAX_SUBJECT_LENGTH = 998
const MAX_URL_LENGTH = 990
const MAX_WORD_LENGTH = 990
const MAX_VARIABLES_BYTES = 64 * 1024

const HEADER = /^(?:x-[a-z0-9-]{1,74}|in-reply-to|references|auto-submitted|precedence)$/i

const size = (value: Json) => Buffer.byteLength(JSON.stringify(value))

const common = {
  template: z.string().min(1).max(64).nullish().meta({
    description: 'The name or id of a template, instead of the texts.',
    example: 'order_shipped',
  }),
  variables: z
    .record(z.string(), anyJson)
    .refine((value) => size(value) <= MAX_VARIABLES_BYTES, {
      error: 'must be at most 64 KiB of JSON',
      abort: true,
    })
    .refine(hasFewValues, FEW_VALUES_ERROR)
    .nullish()
    .meta({
      description: 'The variables of the template; up to 64 KiB and 1,000 values.',
      example: { name: 'Ada' },
    }),
  send_at: dateTime
    .nullish()
    .transform((at) => at ?? null)
    .meta({
      description: 'When to send the message: at most 30 days in the future. Default: now.',
      example: null,
    }),
  metadata,
}

const tag = singleLine(64).meta({ description: 'Your own tag.', example: 'shipping' })
/** A tag as a filter. */
export const tagFilter = tag

/**
 * A long header is folded at blanks, because lines of more than 998 bytes are not delivered. So words must be short.
 */
const headerValue = singleLine(998).refine((value) => !hasLongWord(value, MAX_WORD_LENGTH), {
  error: `must contain a blank at least every ${MAX_WORD_LENGTH} characters`,
})

const addressList = (description: string, example: string) =>
  z
    .array(mailAddress)
    .max(MAX_RECIPIENTS)
    .nullish()
    .meta({ description, example: [example] })

export const emailBody = z
  .strictObject({
    to: z
      .array(mailAddress)
      .min(1)
      .max(MAX_RECIPIENTS)
      .meta({
        description: 'The recipients. With `cc` and `bcc`, at most 50; each address gets the email once.',
        example: ['ada@example.com'],
      }),
    cc: addressList('The cc recipients.', 'books@example.com'),
    bcc: addressList('The bcc recipients, hidden from the others.', 'archive@shop.example'),
    from: mailAddress.nullish().meta({
      description:
        "The sender, at one of the domains that you may send from. It may not be the system's own address. Defaults to the installation's address.",
      example: 'Shop <mail@shop.example>',
    }),
    reply_to: mailAddress.nullish().meta({
      description: "The addresses for replies; not the system's own.",
      example: 'Help <help@shop.example>',
    }),
    subject: singleLine(MAX_SUBJECT_LENGTH).nullish().meta({
      description: "The subject. Required unless you use a template; it replaces the template's subject.",
      example: 'Your order has shipped',
    }),
    text: z.string().min(1).max(MAX_TEXT_LENGTH).nullish().meta({
      description: 'The text. One of `text`, `html` and `template` is required.',
      example: 'It is on its way.',
    }),
    html: z
      .string()
      .min(1)
      .max(MAX_TEXT_LENGTH)
      .nullish()
      .meta({ description: 'The HTML, with or without a `text`.', example: '<p>It is on its way.</p>' }),
    headers: z
      .record(z.string(), headerValue)
      .nullish()
      .superRefine((headers, check) => {
        const names = Object.keys(headers ?? {})
        if (names.length > MAX_HEADERS)
          check.addIssue({ code: 'custom', message: `must have at most ${MAX_HEADERS} headers` })
        const seen = new Set<string>()
        for (const name of names.slice(0, MAX_HEADERS)) {
          const is_allowed = HEADER.test(name) && !seen.has(name.toLowerCase())
          seen.add(name.toLowerCase())
          if (!is_allowed) check.addIssue({ code: 'custom', path: [name], message: INVALID_HEADER })
        }
      })
      .meta({
        description:
          'Further headers: `X-...`, `In-Reply-To`, `References`, `Auto-Submitted` and `Precedence`, each once. Headers that control relays, such as `X-SMTPAPI`, are refused.',
        example: { 'X-Order': 'A-17' },
      }),
    tags: z
      .array(tag)
      .max(MAX_TAGS)
      .nullish()
      .meta({ description: 'Your own tags, by which lists can be filtered.', example: ['shipping'] }),
    attachments: z
      .array(attachment)
      .max(MAX_ATTACHMENTS)
      .nullish()
      .meta({
        description: 'The attached files. The whole request may have at most 15 MiB.',
        example: [{ filename: 'invoice.pdf', content_type: 'application/pdf', content: 'JVBERi0xLjQK' }],
      }),
    list_unsubscribe_url: z
      .string()
      .max(MAX_URL_LENGTH, { abort: true })
      .refine(isHttpsUrl, { error: 'must be an https URL' })
      .nullish()
      .meta({
        description:
          'The one-click unsubscribe URL; sets `List-Unsubscribe` and `List-Unsubscribe-Post` (RFC 8058).',
        example: 'https://shop.example/unsubscribe/17',
      }),
    ...common,
    idempotency_key: idempotencyKey.meta({ example: 'order-17-shipped' }).optional(),
  })
  .superRefine((body, check) => {
    const addProblem = (path: string, message: string) =>
      check.addIssue({ code: 'custom', path: [path], message })
    const { to, cc, bcc, template, variables, subject, text, html } = body
    if (to.length + (cc?.length ?? 0) + (bcc?.length ?? 0) > MAX_RECIPIENTS)
      addProblem('to', `must be at most ${MAX_RECIPIENTS} together with cc and bcc`)
    if (template != null) {
      if (text != null || html != null) addProblem('template', 'must be given instead of text and html')
      return
    }
    if (subject == null) addProblem('subject', 'is required')
    if (text == null && html == null) addProblem('text', 'is required, unless there is html or a template')
    if (variables != null) addProblem('variables', 'belong to a template')
  })
  .meta({ id: 'SendEmail', description: 'The email to send.' })
export type EmailBody = z.output<typeof emailBody>

const INVALID_HEADER =
  'must be X-..., In-Reply-To, References, Auto-Submitted or Precedence, and must appear once'

// Refuses characters that a URL parser would drop or treat as the end of the URL.
function isHttpsUrl(text: string): boolean {
  return /^https:\/\/[!#-;=?-~]+$/i.test(text) && problemOfUrl(text) === null
}

export const smsBody = z
  .strictObject({
    to: phoneNumber.meta({ description: "The recipient's number, in E.164 format." }),
    body: z
      .string()
      .min(1)
      .refine(fitsSms, {
        error: `must have at most ${MAX_SMS_LENGTH} characters; an emoji counts as two or more`,
      })
      .nullish()
      .meta({
        description:
          'The text, at most 1,600 UTF-16 code units: an emoji counts as two or more. Either `body` or `template` is required.',
        maxLength: MAX_SMS_LENGTH,
        example: 'Your order has shipped.',
      }),
    from: smsSender.nullish().meta({
      description:
        "The sender: a number, a messaging service (`MG...`), or a name. A name has up to 11 characters (letters, digits, blanks, `&`, `_` and `-`) with at least one letter, and begins and ends with a letter or digit. If you have senders of your own, the sender must be one of them, and the default is the first; otherwise the default is the installation's sender.",
      example: '+15005550006',
    }),
    validity_s: z.int().min(1).max(36_000).nullish().meta({
      description: 'How many seconds the provider may try to deliver the SMS.',
      example: 14_400,
    }),
    ...common,
    idempotency_key: idempotencyKey.meta({ example: 'order-17-shipped-sms' }).optional(),
  })
  .superRefine(({ template, body, variables }, check) => {
    const addProblem = (path: string, message: string) =>
      check.addIssue({ code: 'custom', path: [path], message })
    if (template != null && body != null) addProblem('template', 'must be given instead of body')
    if (template == null && body == null) addProblem('body', 'is required, unless there is a template')
    if (template == null && variables != null) addProblem('variables', 'belong to a template')
  })
  .meta({ id: 'SendSms', description: 'The SMS to send.' })
export type SmsBody = z.output<typeof smsBody>

/** Whether a text is short enough for an SMS, in UTF-16 code units, which the provider counts. */
export function fitsSms(text: string): boolean {
  return text.length <= MAX_SMS_LENGTH
}

/** The limits of a request body with attachments. */
export const EMAIL_BODY_LIMITS = { bytes: 15 * 1024 * 1024, values: 4_000 }
/** The limits of a batch. */
export const EMAIL_BATCH_LIMITS = { bytes: EMAIL_BODY_LIMITS.bytes, values: 20_000 }
export const SMS_BATCH_LIMITS = { bytes: 2 * 1024 * 1024, values: 20_000 }

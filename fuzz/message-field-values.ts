// Valid values of the fields of messages, templates and suppressions, by path.
import { type Arbitrary, array, constant, constantFrom, oneof } from 'fast-check'

/** The domain selects the emulator's behavior. */
const address = constantFrom(
  '@{address}',
  '@{address}',
  'Ada <@{address}>',
  '"Lovelace, Ada" <@{address}>',
  'Ада <@{fresh}@example.com>',
  '@{fresh}@EXAMPLE.com',
  'a@bounce.example',
  'a@reject.example',
  'a@lost.example',
)
const addresses = array(address, { minLength: 1, maxLength: 3 })
/** The number selects the emulator's behavior. */
const number = constantFrom(
  '@{number}',
  '@{number}',
  '@{number}',
  '+15005550001',
  '+15005550004',
  '+15005550009',
  '+15005550500',
  '+15005550599',
)

const subject_text = constantFrom(
  'Hello',
  'Ваш заказ',
  'é'.repeat(200),
  'a\tb',
  '=?utf-8?Q?=0D=0AX:_1?=',
  '{{ name }}',
)
const text = constantFrom(
  'Hello',
  '.',
  '.\n.\n',
  'From me\n\n.\r\nQUIT\r\n',
  'a'.repeat(1200),
  '名'.repeat(70),
  '€'.repeat(81),
)
/** Templates, some of them expensive to render. */
const liquid = constantFrom(
  'Hello {{ name }}',
  'Hello',
  '{% if nobody %}x{% endif %}',
  '{{ nobody.address }}',
  '{{ name | nofilter }}',
  '{{ name',
  '{% include "x" %}',
  '{% render "/etc/passwd" %}',
  '{% layout "x" %}',
  '{{ constructor.constructor }}{{ name.__proto__ }}',
  '{% for i in (1..1000000000) %}x{% endfor %}',
  '{% assign a = "x" %}{% for i in (1..60) %}{% assign a = a | append: a %}{% endfor %}{{ a }}',
  `${'{% if true %}'.repeat(500)}${'{% endif %}'.repeat(500)}`,
)
const variables = constantFrom<unknown>(
  { name: 'Ada' },
  { name: '<b>\r\nX: 1' },
  {},
  { name: { toString: 1 } },
)
const in_an_hour = constant('@{in_an_hour}')

const SENDING = {
  template: constantFrom('@{template}', '@{template}', 'nobody'),
  variables,
  send_at: in_an_hour,
}
const EMAIL = {
  ...SENDING,
  to: addresses,
  cc: addresses,
  bcc: addresses,
  from: constantFrom('Shop <mail@shop.example>', 'mail@shop.example'),
  reply_to: address,
  subject: subject_text,
  text,
  html: constantFrom('<p>Hello</p>', '<a href="http://{{ name }}">x</a>'),
  headers: constantFrom<unknown>({ 'X-Order': 'A-17' }, { References: '<a@b>', Precedence: 'bulk' }, {}),
  tags: array(constantFrom('a', 'b', 'ü'), { maxLength: 2 }),
  filename: constantFrom('a.txt', 'Rechnung für Ada.pdf', '../../etc/passwd', '"'),
  content_type: constantFrom('text/plain', 'application/pdf'),
  content: constantFrom('SGVsbG8=', Buffer.alloc(3000, 'a').toString('base64')),
  list_unsubscribe_url: constant('https://shop.example/unsubscribe?who=1'),
}
const SMS = {
  ...SENDING,
  template: constantFrom('@{sms_template}', '@{template}'),
  to: number,
  body: text,
  from: constantFrom('@{sender}', 'Shop', '+15005550006'),
}
const TEMPLATES = {
  name: constantFrom('@{fresh}', '@{fresh}', '@{fresh}', 'welcome'),
  subject: liquid,
  text: liquid,
  html: liquid,
  body: liquid,
  variables,
}
const SUPPRESSIONS = { address: oneof(constantFrom('@{fresh}@example.com', '@{address}'), number) }

/** Values of fields by path prefix, longest prefix first. */
export const MESSAGE_FIELD_VALUES: Record<string, Record<string, Arbitrary<unknown>>> = {
  '/v1/messages/email': EMAIL,
  '/v1/messages/sms': SMS,
  '/v1/messages/templates': TEMPLATES,
  '/v1/messages/suppressions': SUPPRESSIONS,
  '/v1/messages': { to: oneof(address, number), tag: constantFrom('a', 'ü') },
}

/** Fields of a body. */
export type Fields = Record<string, unknown>

const sent = ({ template, variables, ...own }: Fields, texts: Fields): Fields => {
  if (template === undefined || template === null) return { ...own, ...missingFrom(texts, own) }
  const names = ['text', 'html', ...Object.keys(texts)]
  const rest = Object.entries(own).filter(([name]) => !names.includes(name))
  return { ...Object.fromEntries(rest), template, ...(variables !== undefined && { variables }) }
}

/** The fields that `own` does not have. */
function missingFrom(fields: Fields, own: Fields): Fields {
  return Object.fromEntries(Object.entries(fields).filter(([name]) => (own[name] ?? null) === null))
}

const sentEmail = (body: Fields) =>
  sent(body, { subject: 'Hello', ...((body['html'] ?? null) === null && { text: 'Hello' }) })
const sentSms = (body: Fields) => sent(body, { body: 'Hello' })

function forEachMessage(makeConsistent: (body: Fields) => Fields): (body: Fields) => Fields {
  return ({ messages, ...own }) => ({
    ...own,
    messages: Array.isArray(messages) ? messages.map((one: Fields) => makeConsistent(one)) : messages,
  })
}

function template({ subject, text, html, body, ...own }: Fields): Fields {
  if (own['channel'] === 'sms') return { ...own, body: body ?? 'Hello' }
  return { ...own, subject: subject ?? 'Hello', text: text ?? 'Hello', ...(html !== undefined && { html }) }
}

const suppression = (body: Fields): Fields => ({
  ...body,
  channel: /^(@\{number|\+)/.test(String(body['address'])) ? 'sms' : 'email',
})

/** Functions that make bodies consistent, by path prefix, longest prefix first. */
export const CONSISTENT_BODIES: Record<string, (body: Fields) => Fields> = {
  '/v1/messages/email/batch': forEachMessage(sentEmail),
  '/v1/messages/email': sentEmail,
  '/v1/messages/sms/batch': forEachMessage(sentSms),
  '/v1/messages/sms': sentSms,
  '/v1/messages/templates/': (body) => body,
  '/v1/messages/templates': template,
  '/v1/messages/suppressions': suppression,
}

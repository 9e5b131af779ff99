// The variables of email and SMS.
import { z } from 'zod'
import { EMAIL, SMS } from './providers.ts'
import { baseUrl, commaList, count, SECRETS, SERVICES, type VariableRow } from './row.ts'

const ADDRESS = /^[^\s@<>]+@[^\s@<>]+$/
const DOMAIN = /^[a-z0-9-]+(\.[a-z0-9-]+)*$/i

export const MESSAGING_VARIABLES = {
  ADDRESS_KEY: [
    z
      .string()
      .regex(/^[A-Za-z0-9+/]{43}=$/, { error: 'must be 32 bytes in base64' })
      .optional()
      .register(SECRETS, { is_reread: false }),
    '<what openssl rand -base64 32 prints>',
    '32 bytes, base64, used to find email addresses and phone numbers without storing them in plain text. Give the same one to api, webhooks, worker and dashboard, and keep it: with another one, suppressions are no longer found, and repeated requests are refused as requests with other content',
    SERVICES,
    SERVICES,
    [...EMAIL.queues, ...SMS.queues],
  ],
  SMTP_URL: [
    z
      .string()
      .refine((text) => /^smtps?:\/\//.test(text) && URL.canParse(text), {
        error: 'must be smtp://user:password@host:port, or smtps://',
      })
      .optional()
      .register(SECRETS, { is_reread: true }),
    'smtps://user:password@smtp.example.com:465',
    'server that sends email; without it, `npm start` runs one that only shows what it received. In production, no email is sent without it. The API only needs to know that there is one',
    ['api', 'worker'],
  ],
  SMTP_CONNECTIONS: [
    count(20, 100),
    '20',
    'maximum number of connections of each worker to that server. Set fewer if the server allows fewer: some allow 3',
    ['worker'],
  ],
  EMAIL_FROM: [
    z
      .string()
      .refine((text) => ADDRESS.test(/<([^<>]*)>$/.exec(text)?.[1] ?? text) && !/[\r\n]/.test(text), {
        error: 'must be an email address, or a name and an address: Shop <mail@shop.example>',
      })
      .optional(),
    'Shop <mail@shop.example>',
    'sender of email that does not set `from`',
    ['api', 'worker'],
  ],
  SYSTEM_EMAIL_FROM: [
    z
      .string()
      .refine((text) => ADDRESS.test(/<([^<>]*)>$/.exec(text)?.[1] ?? text) && !/[\r\n]/.test(text), {
        error: 'must be an email address, or a name and an address: Sluice <system@shop.example>',
      })
      .optional(),
    'Sluice <system@shop.example>',
    'sender of system email: invitations, and emails to the contacts of tenants. No tenant can use it. Unset: `system@` the domain of EMAIL_FROM, which your server must accept as a sender',
    ['api', 'worker'],
  ],
  EMAIL_HEADERS_ALLOWED: [
    commaList.refine((names) => names.every((name) => /^x-[a-z0-9-]*\*?$/i.test(name)), {
      error: 'must be names of headers, or X-...-*, separated by commas',
    }),
    'X-PM-Tag,X-MJ-*',
    'relay control headers that tenants may set: names, or prefixes that end with `*`, separated by commas, such as `X-PM-Tag,X-MJ-*`; unset: none',
    ['api'],
  ],
  EMAIL_FROM_DOMAINS: [
    commaList.refine((domains) => domains.every((domain) => DOMAIN.test(domain)), {
      error: 'must be domains, separated by commas',
    }),
    'shop.example,mail.shop.example',
    'domains that sender addresses of tenants without a list of their own may have, separated by commas; unset: any. `npm run keys -- domains` sets the list of a tenant',
    ['api', 'worker'],
  ],
  EMAIL_WEBHOOK_SECRET: [
    z
      .string()
      .regex(/^\s*whsec_[A-Za-z0-9+/]{32,86}={0,2}(\s*,\s*whsec_[A-Za-z0-9+/]{32,86}={0,2})*\s*$/, {
        error:
          'must be whsec_ and 24 to 64 bytes in base64; during a rotation, list several secrets, separated by commas',
      })
      .optional()
      .register(SECRETS, { is_reread: true }),
    'whsec_<what openssl rand -base64 32 prints>',
    'secret (Standard Webhooks) that signs reports of bounces, complaints and deliveries of email, sent to `/email`; without it, they are refused',
    ['webhooks'],
  ],
  DKIM_DOMAIN: [
    z.string().regex(DOMAIN, { error: 'must be a domain' }).optional(),
    'shop.example',
    'domain that signs email; needs DKIM_SELECTOR and DKIM_PRIVATE_KEY',
    ['worker'],
  ],
  DKIM_SELECTOR: [
    z.string().regex(DOMAIN, { error: 'must be letters, digits and hyphens' }).optional(),
    'mail2026',
    'name of the key in the DNS of that domain: `<selector>._domainkey.<domain>`',
    ['worker'],
  ],
  DKIM_PRIVATE_KEY: [
    z
      .string()
      .transform((text) => text.replaceAll('\\n', '\n'))
      .refine(
        (text) =>
          /^-----BEGIN [A-Z ]*PRIVATE KEY-----\n[\s\S]+-----END [A-Z ]*PRIVATE KEY-----\s*$/.test(text),
        {
          error: 'must be a private key in PEM format; line ends may be written as \\n',
        },
      )
      .optional()
      .register(SECRETS, { is_reread: false }),
    '-----BEGIN PRIVATE KEY-----\\n...\\n-----END PRIVATE KEY-----',
    'private key, PEM, with line breaks or `\\n`',
    ['worker'],
  ],
  TWILIO_ACCOUNT_SID: [
    z
      .string()
      .regex(/^AC[0-9a-f]{32}$/, { error: 'must be AC and 32 hexadecimal digits' })
      .optional(),
    'AC0123456789abcdef0123456789abcdef',
    'account at Twilio; without it and TWILIO_AUTH_TOKEN, `npm start` runs a Twilio emulator. In production, no SMS is sent unless these two and TWILIO_FROM are set. The API only needs to know that there is one',
    ['api', 'worker'],
  ],
  TWILIO_AUTH_TOKEN: [
    z
      .string()
      .regex(/^[\x21-\x7e]+$/, { error: 'must be visible ASCII characters' })
      .optional()
      .register(SECRETS, { is_reread: true }),
    '0123456789abcdef0123456789abcdef',
    'token of that account, which also signs its callbacks. During rotation, several, separated by commas: the first is used, all are accepted. The API only needs to know that there is one',
    SERVICES,
  ],
  TWILIO_FROM: [
    z
      .string()
      .regex(/^(\+[1-9]\d{6,14}|MG[0-9a-f]{32})$/, {
        error: 'must be a phone number (+15551234567) or a messaging service (MG and 32 hexadecimal digits)',
      })
      .optional(),
    '+15551234567',
    'sender of SMS that do not set `from`, of tenants without a list of senders (`npm run keys -- senders`): a number or a messaging service (`MG...`)',
    ['api', 'worker'],
  ],
  TWILIO_API_BASE: [
    baseUrl.optional(),
    'https://api.twilio.com',
    "another server that speaks Twilio's API; if it is set, no emulator runs",
    ['worker'],
  ],
  SMS_COUNTRIES: [
    commaList
      .transform((codes) => codes.map((code) => code.toUpperCase()))
      .refine((codes) => codes.every((code) => /^[A-Z]{2}$/.test(code)), {
        error: 'must be country codes of two letters, separated by commas',
      }),
    'DE,AT,CH',
    'countries (ISO 3166) to which SMS may be sent, separated by commas; unset: all',
    ['api'],
  ],
  MESSAGES_PER_MINUTE: [count(6000), '6000', 'messages a minute for each tenant', ['api']],
  MESSAGES_PER_DESTINATION_HOUR: [
    count(200),
    '200',
    'messages an hour for each tenant to one address or number',
    ['api'],
  ],
  MESSAGE_RETENTION_DAYS: [
    count(90, 10_000),
    '90',
    'days after which the text and the attachments of messages are erased',
    ['worker'],
  ],
} as const satisfies Record<string, VariableRow>

// The OpenAPI document of the webhooks host. The API serves it: the webhooks host serves notifications only.
import type { Config } from '#core/config.ts'
import { webhooksUrl } from '#core/startup.ts'
import { byComponentName, componentName, HEADERS } from './components.ts'
import { DOCUMENT_INFO } from './document.ts'
import type { JsonSchema } from './schemas.ts'
import { EMAIL_WEBHOOK_DOC } from './email.ts'
import { PROCESSOR_WEBHOOK_DOC } from './stripe.ts'
import { SMS_WEBHOOK_DOC } from './twilio.ts'

const WEBHOOK_DOCS = [PROCESSOR_WEBHOOK_DOC, SMS_WEBHOOK_DOC, EMAIL_WEBHOOK_DOC]

const DESCRIPTION = `
Processors and other providers send their notifications to this separate host. The signature of a notification is verified over its
raw bytes. The notification is stored once, answered 200, and applied later. A duplicate is answered 200 and changes
nothing. ${PROCESSOR_WEBHOOK_DOC.guide.link} explains how to set up the processor's webhooks.
`

/** Status, code and meaning of each refusal. */
const REFUSALS: [status: number, code: string, when: string][] = [
  [
    400,
    'invalid_signature',
    'The signature is missing, malformed, more than five minutes old or not made with a configured secret; or no secret is configured.',
  ],
  [
    400,
    'invalid_request',
    'The request cannot be read, its body is not an event, or the event is of another mode than the secret.',
  ],
  [404, 'route_not_found', 'There is no such route.'],
  [408, 'request_timeout', 'The request did not arrive in time.'],
  [413, 'payload_too_large', 'The body exceeds 1 MiB, or 64 KiB at `/twilio`.'],
  [431, 'headers_too_large', 'The request headers are too large.'],
  [500, 'internal_error', 'An internal error occurred. Send the notification again.'],
  [503, 'database_unavailable', 'Nothing was stored: send it again.'],
  [503, 'timeout', 'The notification was not stored in time: send it again.'],
  [
    503,
    'overloaded',
    'Too many request bodies arrive at once, and this one was dropped: send the request again.',
  ],
]

/** The document of the host. */
export function webhooksDocument(config: Config): JsonSchema {
  return {
    openapi: '3.1.1',
    info: {
      title: 'Sluice webhooks host',
      summary: 'Receives the notifications of payment processors, email relays and SMS providers.',
      description: DESCRIPTION,
      ...DOCUMENT_INFO,
    },
    servers: [
      {
        url: webhooksUrl(config),
        description: 'The webhooks host of this installation.',
      },
    ],
    tags: [{ name: 'notifications', description: 'Sent by providers, never by integrators.' }],
    paths: Object.fromEntries(
      WEBHOOK_DOCS.map(({ path, operation, answer }) => [
        path,
        { post: { ...operation, responses: { 200: { ...STORED_RESPONSE, ...answer }, ...refusals() } } },
      ]),
    ),
    components: {
      schemas: Object.assign({}, SCHEMAS, ...WEBHOOK_DOCS.map(({ schemas }) => schemas)),
      headers: byComponentName({
        'x-request-id': HEADERS['x-request-id'],
        'Retry-After': HEADERS['Retry-After'],
      }),
      securitySchemes: Object.assign({}, ...WEBHOOK_DOCS.map(({ securitySchemes }) => securitySchemes)),
    },
  }
}

const STORED_RESPONSE: JsonSchema = {
  description: 'The notification is stored, by this request or an earlier one.',
  headers: headersOf('x-request-id'),
  content: {
    'application/json': {
      schema: { $ref: '#/components/schemas/Received' },
      example: { received: true },
    },
  },
}

const SCHEMAS: Record<string, JsonSchema> = {
  ErrorAnswer: {
    type: 'object',
    description: 'A refusal or failure.',
    required: ['error'],
    properties: { error: { $ref: '#/components/schemas/ErrorBody' } },
  },
  ErrorBody: {
    type: 'object',
    description: 'The error.',
    required: ['code', 'message'],
    properties: {
      code: {
        type: 'string',
        description: 'The error code.',
        enum: [...new Set(REFUSALS.map(([, code]) => code))],
        examples: ['invalid_signature'],
      },
      message: {
        type: 'string',
        description: 'A description for people.',
        examples: ['The signature is not acceptable: mismatch.'],
      },
    },
  },
  Received: {
    type: 'object',
    description: 'The notification is stored.',
    required: ['received'],
    properties: {
      received: { type: 'boolean', description: 'Always true.', examples: [true] },
      duplicate: {
        type: 'boolean',
        description: 'Present and true if the notification was stored before.',
        examples: [true],
      },
    },
  },
}

function refusals(): JsonSchema {
  return Object.fromEntries(
    Object.entries(Object.groupBy(REFUSALS, ([status]) => status)).map(([status, list = []]) => [
      status,
      {
        description: list.map(([, code, when]) => `\`${code}\`: ${when}`).join('\n\n'),
        headers: headersOf('x-request-id', ...(status === '503' ? (['Retry-After'] as const) : [])),
        content: {
          'application/json': {
            schema: { $ref: '#/components/schemas/ErrorAnswer' },
            examples: Object.fromEntries(
              list.map(([, code, message]) => [code, { value: { error: { code, message } } }]),
            ),
          },
        },
      },
    ]),
  )
}

function headersOf(...names: (keyof typeof HEADERS)[]): JsonSchema {
  return Object.fromEntries(
    names.map((name) => [name, { $ref: `#/components/headers/${componentName(name)}` }]),
  )
}

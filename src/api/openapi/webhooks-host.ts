// The OpenAPI document of the webhooks host, which serves none itself: nothing but notifications is there.
import type { Config } from '#core/config.ts'
import { byComponentName, componentName, HEADERS } from './components.ts'
import { INFO } from './document.ts'
import type { JsonSchema } from './schemas.ts'

const DESCRIPTION = `
Where processors send their notifications; a host of its own, on which nothing else is served. A notification is verified over the
bytes as they came, stored once, and answered 200; what follows from it is done later. One that was stored before is answered 200
and does nothing. [Webhooks from Stripe](/docs/guides/stripe-webhooks) says how to set it up.
`

/** Status, code and meaning of each refusal. */
const REFUSALS: [status: number, code: string, when: string][] = [
  [
    400,
    'invalid_signature',
    'The signature is missing, malformed, not of any of our secrets, or more than five minutes old.',
  ],
  [400, 'invalid_request', 'The request cannot be read, or its body is not an event.'],
  [404, 'route_not_found', 'There is no such route.'],
  [408, 'request_timeout', 'The request did not arrive in time.'],
  [413, 'payload_too_large', 'The body is above 1 MiB.'],
  [431, 'headers_too_large', 'The request headers are too large.'],
  [500, 'internal_error', 'Something went wrong on our side.'],
  [503, 'database_unavailable', 'Nothing was stored: send it again.'],
]

/** The document of `POST /stripe`. */
export function webhooksDocument(config: Config): JsonSchema {
  return {
    openapi: '3.1.1',
    info: {
      title: 'Sluice webhooks host',
      summary: 'Takes the notifications of processors.',
      description: DESCRIPTION,
      ...INFO,
    },
    servers: [
      {
        url: config.WEBHOOKS_URL ?? `http://${config.HOST}:${config.WEBHOOKS_PORT}`,
        description: 'The webhooks host of this installation.',
      },
    ],
    tags: [{ name: 'notifications', description: 'Sent by processors, never by integrators.' }],
    paths: {
      '/stripe': {
        post: {
          operationId: 'receiveStripeEvent',
          summary: 'Take an event from Stripe',
          description:
            'Called by Stripe. Any event is taken and stored; those that are about none of our payments change nothing.',
          tags: ['notifications'],
          security: [{ stripe_signature: [] }],
          requestBody: {
            required: true,
            description: 'The event, as Stripe sends it.',
            content: {
              'application/json': {
                schema: { $ref: '#/components/schemas/StripeEvent' },
                example: EVENT,
              },
            },
          },
          responses: {
            200: {
              description: 'Stored, now or before.',
              headers: headersOf('x-request-id'),
              content: {
                'application/json': {
                  schema: { $ref: '#/components/schemas/Received' },
                  example: { received: true },
                },
              },
            },
            ...refusals(),
          },
        },
      },
    },
    components: {
      schemas: SCHEMAS,
      headers: byComponentName({
        'x-request-id': HEADERS['x-request-id'],
        'Retry-After': HEADERS['Retry-After'],
      }),
      securitySchemes: {
        stripe_signature: {
          type: 'apiKey',
          in: 'header',
          name: 'Stripe-Signature',
          description:
            "`t=<unix seconds>,v1=<hex>`: HMAC-SHA256 of `<t>.<body>` with the endpoint's signing secret. Not a fixed key: it is made for each request.",
        },
      },
    },
  }
}

const EVENT = {
  id: 'evt_1SV0Zw2eZvKYlo2C0aBcDeFg',
  object: 'event',
  type: 'payment_intent.succeeded',
  created: 1_795_000_000,
  livemode: false,
  data: { object: { id: 'pi_3SV0Zw2eZvKYlo2C0aBcDeFg', object: 'payment_intent', status: 'succeeded' } },
}

const SCHEMAS: Record<string, JsonSchema> = {
  Error: {
    type: 'object',
    description: 'A refusal or failure.',
    required: ['error'],
    properties: { error: { $ref: '#/components/schemas/ErrorBody' } },
  },
  ErrorBody: {
    type: 'object',
    description: 'What went wrong.',
    required: ['code', 'message'],
    properties: {
      code: {
        type: 'string',
        description: 'What went wrong, for programs.',
        enum: [...new Set(REFUSALS.map(([, code]) => code))],
        examples: ['invalid_signature'],
      },
      message: {
        type: 'string',
        description: 'The same for people.',
        examples: ['The signature is not acceptable: mismatch.'],
      },
    },
  },
  Received: {
    type: 'object',
    description: 'It is stored.',
    required: ['received'],
    properties: {
      received: { type: 'boolean', description: 'Always true.', examples: [true] },
      duplicate: {
        type: 'boolean',
        description: 'Present and true when it had been stored before.',
        examples: [true],
      },
    },
  },
  StripeEvent: {
    type: 'object',
    description: 'An event of Stripe; only what is read here is described.',
    required: ['id', 'type', 'data'],
    additionalProperties: true,
    properties: {
      id: { type: 'string', description: "Stripe's id of the event.", examples: [EVENT.id] },
      type: { type: 'string', description: 'What happened.', examples: [EVENT.type] },
      account: {
        type: 'string',
        description: 'The connected account that it is about, if any.',
        examples: ['acct_1SV0Zw2eZvKYlo2C'],
      },
      data: { $ref: '#/components/schemas/StripeEventData' },
    },
  },
  StripeEventData: {
    type: 'object',
    description: 'What it happened to.',
    required: ['object'],
    properties: {
      object: {
        type: 'object',
        description: 'The payment intent, charge or refund as it stood then.',
        additionalProperties: true,
        examples: [EVENT.data.object],
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
            schema: { $ref: '#/components/schemas/Error' },
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

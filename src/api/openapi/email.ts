// The email notifications in the OpenAPI document of the webhooks host.
import type { JsonSchema } from './schemas.ts'

const EVENT = {
  type: 'email.bounced',
  data: {
    message_id: '0198f6f6-2b1d-7000-8000-123456789abc',
    address: 'ada@example.com',
    bounce: 'hard',
    diagnostic: '550 5.1.1 No such mailbox.',
  },
}

const schemas: Record<string, JsonSchema> = {
  EmailEvent: {
    type: 'object',
    description: 'The outcome of an email for one of its recipients.',
    required: ['type', 'data'],
    additionalProperties: true,
    properties: {
      type: {
        type: 'string',
        description:
          '`email.delivered`: the email arrived. `email.bounced`: it was returned. `email.complained`: the recipient marked it as spam. Other types are accepted and change nothing.',
        examples: [EVENT.type],
      },
      data: { $ref: '#/components/schemas/EmailEventData' },
    },
  },
  EmailEventData: {
    type: 'object',
    description: 'The message, the recipient and the details.',
    required: ['message_id', 'address'],
    properties: {
      message_id: {
        type: 'string',
        format: 'uuid',
        description:
          'The id of the message. It is in the header `X-Sluice-Message-ID` of the email, and at the start of its Message-ID.',
        examples: [EVENT.data.message_id],
      },
      address: { type: 'string', description: 'The recipient.', examples: [EVENT.data.address] },
      bounce: {
        type: 'string',
        description: 'Required for a bounce: `hard` is permanent, `soft` is temporary.',
        enum: ['hard', 'soft'],
        examples: [EVENT.data.bounce],
      },
      diagnostic: {
        type: ['string', 'null'],
        description: "For a bounce: the server's answer. Only the codes at its beginning are stored.",
        examples: [EVENT.data.diagnostic],
      },
    },
  },
}

const operation: JsonSchema = {
  operationId: 'receiveEmailEvent',
  summary: 'Receive a bounce, complaint or delivery of an email',
  description:
    'Called by the software that reports on the email of your relay, in the format of Standard Webhooks. A hard bounce or complaint suppresses the address.',
  tags: ['notifications'],
  security: [{ standard_webhooks_signature: [] }],
  parameters: [
    {
      name: 'webhook-id',
      in: 'header',
      required: true,
      description: 'The id of the event. It stays the same when the event is sent again.',
      schema: { type: 'string', examples: ['msg_p5jXN8AQM9LWM0D4loKWxJek'] },
    },
    {
      name: 'webhook-timestamp',
      in: 'header',
      required: true,
      description: 'Unix time in seconds; at most 300 seconds in the past or future.',
      schema: { type: 'string', examples: ['1795000000'] },
    },
  ],
  requestBody: {
    required: true,
    description: 'The event.',
    content: {
      'application/json': { schema: { $ref: '#/components/schemas/EmailEvent' }, example: EVENT },
    },
  },
}

const securitySchemes = {
  standard_webhooks_signature: {
    type: 'apiKey',
    in: 'header',
    name: 'webhook-signature',
    description:
      '`v1,` and the base64 of the HMAC-SHA256 of `<id>.<timestamp>.<body>`, with the base64-decoded part of the secret; several signatures are separated by blanks. Not a fixed key: it is computed for each request.',
  },
}

export const EMAIL_WEBHOOK_DOC = {
  path: '/email',
  operation,
  answer: null,
  schemas,
  securitySchemes,
} as const

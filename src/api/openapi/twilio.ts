// What the document of the webhooks host says of the notifications of Twilio.
import { SMS } from '#core/config/providers.ts'
import type { JsonSchema } from './schemas.ts'

const CALLBACK = {
  MessageSid: SMS.examples.sms,
  MessageStatus: 'delivered',
  AccountSid: 'AC0123456789abcdef0123456789abcdef',
}

const text = (description: string, example: string) => ({ type: 'string', description, examples: [example] })

const schemas: Record<string, JsonSchema> = {
  TwilioPost: {
    type: 'object',
    description: 'The parameters that Twilio posts; only what is read here is described.',
    required: ['MessageSid'],
    additionalProperties: true,
    properties: {
      MessageSid: text("Twilio's id of the message.", CALLBACK.MessageSid),
      AccountSid: text('The account that it belongs to.', CALLBACK.AccountSid),
      MessageStatus: text('For a status callback: the status of the message.', CALLBACK.MessageStatus),
      ErrorCode: text('Of a status callback: why it failed.', '30003'),
      From: text('Of an answer: the number of the person.', '+15005550006'),
      To: text('Of an answer: the number that received it.', '+15551234567'),
      MessagingServiceSid: text(
        'Of an answer: the messaging service of that number.',
        'MG0123456789abcdef0123456789abcdef',
      ),
      Body: text('For an answer: its text.', 'STOP'),
      OptOutType: text('Of an answer: what Twilio takes it for, which wins over its text.', 'STOP'),
    },
  },
}

const operation: JsonSchema = {
  operationId: 'receiveTwilioPost',
  summary: 'Take a status callback or an answer from Twilio',
  description:
    'Called by Twilio. A status callback moves the SMS on. An answer becomes a message of the tenant whose message to the number left last from the number that received it. One that is a word such as STOP suppresses the number for them; START lifts that. Numbers and texts are stored encrypted.',
  tags: ['notifications'],
  security: [{ twilio_signature: [] }],
  parameters: [
    {
      name: 'm',
      in: 'query',
      description: 'The message that a status callback is about.',
      schema: { type: 'string', format: 'uuid', examples: ['0198f6f6-2b1d-7000-8000-123456789abc'] },
    },
  ],
  requestBody: {
    required: true,
    description: 'The parameters, as Twilio posts them.',
    content: {
      'application/x-www-form-urlencoded': {
        schema: { $ref: '#/components/schemas/TwilioPost' },
        example: CALLBACK,
      },
    },
  },
}

const answer: JsonSchema = {
  content: {
    'text/xml': {
      schema: {
        type: 'string',
        description: 'TwiML that answers nothing to the person.',
        examples: ['<Response/>'],
      },
      example: '<Response/>',
    },
  },
}

const securitySchemes = {
  twilio_signature: {
    type: 'apiKey',
    in: 'header',
    name: 'X-Twilio-Signature',
    description:
      'Base64 of the HMAC-SHA1 of the address called and of all parameters, in the order of their names, with the auth token. Not a fixed key: it is made for each request.',
  },
}

export const SMS_WEBHOOK_DOC = { path: '/twilio', operation, answer, schemas, securitySchemes } as const

// The notifications of Twilio in the document of the webhooks host.
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
    description: 'The parameters that Twilio posts. Only the parameters that Sluice reads are described.',
    required: ['MessageSid'],
    additionalProperties: true,
    properties: {
      MessageSid: text("Twilio's id of the message.", CALLBACK.MessageSid),
      AccountSid: text('The account of the message.', CALLBACK.AccountSid),
      MessageStatus: text('For a status callback: the status of the message.', CALLBACK.MessageStatus),
      ErrorCode: text('For a status callback: the reason of the failure.', '30003'),
      From: text('For a reply: the number of the person.', '+15005550006'),
      To: text('For a reply: the number that received it.', '+15551234567'),
      MessagingServiceSid: text(
        'For a reply: the messaging service of that number.',
        'MG0123456789abcdef0123456789abcdef',
      ),
      Body: text('For a reply: its text.', 'STOP'),
      OptOutType: text(
        'For a reply: the keyword that Twilio recognized. It takes precedence over the text.',
        'STOP',
      ),
    },
  },
}

const operation: JsonSchema = {
  operationId: 'receiveTwilioPost',
  summary: 'Receive a status callback or a reply from Twilio',
  description:
    'Called by Twilio. A status callback updates the SMS. A reply becomes a message of the tenant that last sent an SMS between the two numbers. A keyword such as STOP suppresses the number for this tenant; START lifts the suppression. Numbers and texts are stored encrypted.',
  tags: ['notifications'],
  security: [{ twilio_signature: [] }],
  parameters: [
    {
      name: 'm',
      in: 'query',
      description: 'The message of a status callback.',
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
        description: 'TwiML that sends no reply to the person.',
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
      'Base64 of the HMAC-SHA1 of the called URL and all parameters, in the order of their names, with the auth token. Not a fixed key: it is computed for each request.',
  },
}

export const SMS_WEBHOOK_DOC = { path: '/twilio', operation, answer, schemas, securitySchemes } as const

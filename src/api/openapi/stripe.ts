// The notifications of Stripe in the document of the webhooks host.
import type { JsonSchema } from './schemas.ts'

const EVENT = {
  id: 'evt_1SV0Zw2eZvKYlo2C0aBcDeFg',
  object: 'event',
  type: 'payment_intent.succeeded',
  created: 1_795_000_000,
  livemode: true,
  data: { object: { id: 'pi_3SV0Zw2eZvKYlo2C0aBcDeFg', object: 'payment_intent', status: 'succeeded' } },
}

const schemas: Record<string, JsonSchema> = {
  StripeEvent: {
    type: 'object',
    description: 'An event of Stripe. Only the fields that Sluice reads are described.',
    required: ['id', 'type', 'data'],
    additionalProperties: true,
    properties: {
      id: { type: 'string', description: "Stripe's id of the event.", examples: [EVENT.id] },
      type: { type: 'string', description: 'The event type.', examples: [EVENT.type] },
      account: {
        type: 'string',
        description: 'The connected account of the event, if any.',
        examples: ['acct_1SV0Zw2eZvKYlo2C'],
      },
      livemode: {
        type: 'boolean',
        description: 'The mode of the event. It must be that of the secret with which the event is signed.',
        examples: [EVENT.livemode],
      },
      data: { $ref: '#/components/schemas/StripeEventData' },
    },
  },
  StripeEventData: {
    type: 'object',
    description: 'The resource of the event.',
    required: ['object'],
    properties: {
      object: {
        type: 'object',
        description: 'The payment intent, charge or refund at the time of the event.',
        additionalProperties: true,
        examples: [EVENT.data.object],
      },
    },
  },
}

const operation: JsonSchema = {
  operationId: 'receiveStripeEvent',
  summary: 'Receive an event from Stripe',
  description:
    'Called by Stripe. Every event is accepted and stored. An event that concerns no payment of this installation changes nothing. An event with the secret of test mode reaches only tenants in test mode, and one with the live secret only live tenants.',
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
}

const securitySchemes = {
  stripe_signature: {
    type: 'apiKey',
    in: 'header',
    name: 'Stripe-Signature',
    description:
      "`t=<unix seconds>,v1=<hex>`: HMAC-SHA256 of `<t>.<body>` with the endpoint's signing secret. Not a fixed key: it is computed for each request.",
  },
}

export const PROCESSOR_WEBHOOK_DOC = {
  path: '/stripe',
  guide: { name: 'stripe-webhooks', link: '[Webhooks from Stripe](/docs/guides/stripe-webhooks)' },
  operation,
  answer: null,
  schemas,
  securitySchemes,
} as const

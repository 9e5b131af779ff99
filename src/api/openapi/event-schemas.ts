// The schemas of events by type, in the feed and in webhooks.
import { EVENTS } from '#domain/events.ts'
import { withLivemode } from '../livemode.ts'
import type { JsonSchema, Schemas } from './schemas.ts'

/** The component name of a type: `PaymentCaptureFailed` for `payment.capture_failed`. */
export function nameOfType(type: string): string {
  return type.replaceAll(/(?:^|[._])(\w)/g, (_match, letter: string) => letter.toUpperCase())
}

/** Adds the body of a webhook of this type as a component, and returns a reference to the component. */
export function webhookBody(type: string, data: JsonSchema[], schemas: Schemas): JsonSchema {
  const name = `${nameOfType(type)}Webhook`
  schemas.components[name] = {
    type: 'object',
    description: `The body of the webhook \`${type}\`.`,
    required: ['id', 'type', 'timestamp', 'sequence', 'tenant_id', 'livemode', 'data'],
    properties: {
      id: {
        type: 'string',
        format: 'uuid',
        description: 'The id of the event, as in the header `webhook-id`.',
        examples: [EXAMPLE_EVENT_ID],
      },
      type: { type: 'string', const: type, description: 'The event type.', examples: [type] },
      timestamp: {
        type: 'string',
        format: 'date-time',
        description: 'When the event happened.',
        examples: [EXAMPLE_TIME],
      },
      sequence: {
        type: ['integer', 'null'],
        format: 'int64',
        minimum: 1,
        description:
          'The number of the event in the feed of the tenant, without gaps except restarts of the feed. `null` in a test event.',
        examples: [42],
      },
      tenant_id: {
        type: 'string',
        format: 'uuid',
        description: 'The tenant to which the event belongs.',
        examples: [EXAMPLE_TENANT_ID],
      },
      livemode: {
        type: 'boolean',
        description: '`true` in live mode; `false` in test mode, which moves no money.',
        examples: [true],
      },
      data: { description: 'The resource at the time of the event.', anyOf: data },
    },
  }
  return { $ref: `#/components/schemas/${name}` }
}

/** Splits the component `FeedEvent` into one component per `type`. Call it after all other schemas are created. */
export function splitByType(schemas: Schemas): void {
  const { components } = schemas
  const feed_event = components['FeedEvent']
  if (feed_event === undefined) return
  const { properties, ...rest } = feed_event as JsonSchema & { properties: Record<string, JsonSchema> }
  const mapping: Record<string, string> = {}
  for (const { type, resource, about, data } of EVENTS) {
    const name = `${nameOfType(type)}Event`
    mapping[type] = `#/components/schemas/${name}`
    components[name] = {
      ...rest,
      description: `An event of the feed. ${about}`,
      properties: {
        ...properties,
        type: { ...properties['type'], const: type, examples: [type] },
        subject_type: { ...properties['subject_type'], const: resource, examples: [resource] },
        data: {
          ...schemas.of(withLivemode(data), 'output'),
          description: properties['data']!['description'],
        },
      },
    }
  }
  components['FeedEvent'] = {
    description: `${String(feed_event['description'])} Its \`type\` selects the schema. New types may be added at any time.`,
    oneOf: Object.values(mapping).map(($ref) => ({ $ref })),
    discriminator: { propertyName: 'type', mapping },
  }
}

export const EXAMPLE_EVENT_ID = '0198f6f2-2b1a-7000-8000-123456789abc'
export const EXAMPLE_TENANT_ID = '0198f6f0-5a1c-7c3e-9d50-3f6f1c9d7a10'
export const EXAMPLE_TIME = '2026-11-20T10:15:30.123456Z'

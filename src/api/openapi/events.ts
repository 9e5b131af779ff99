// Events as the `webhooks` of the OpenAPI document: the description and data schema of each type.
import { z } from 'zod'
import { PAYMENTS, PAYOUTS, TOP_UPS } from '#core/config/providers.ts'
import { EVENTS, type EventType } from '#domain/events.ts'
import { rootOf, resourceOf } from '#domain/resources.ts'
import { AI_TASK_FAILED, AI_TASK_QUEUED } from '../routes/ai-tasks/examples.ts'
import {
  CANCELED,
  CAPTURED,
  DECLINED,
  FAILED,
  AUTHORIZED,
  PENDING,
  REQUIRES_ACTION,
  PROCESSOR_FAILED,
} from '../routes/payments/examples.ts'
import { MESSAGE_CANCELED, MESSAGE_QUEUED, recipientsOf, SMS_RECEIVED } from '../routes/messages/examples.ts'
import {
  CANCELED_PAYOUT,
  FAILED_MANUALLY,
  PENDING_PAYOUT,
  PROCESSING_PAYOUT,
} from '../routes/payouts/examples.ts'
import { DECIDED_VERIFICATION, PENDING_VERIFICATION } from '../routes/verifications/examples.ts'
import { TOP_UP_FAILED, TOP_UP_PENDING } from '../routes/top-ups/examples.ts'
import { withLivemode } from '../livemode.ts'
import { componentName } from './components.ts'
import {
  EXAMPLE_EVENT_ID,
  EXAMPLE_TENANT_ID,
  EXAMPLE_TIME,
  nameOfType,
  webhookBody,
} from './event-schemas.ts'
import { createSchemas, type JsonSchema, type Schemas } from './schemas.ts'

/** The headers of every webhook, by name. */
export const EVENT_HEADERS = {
  'webhook-id': {
    name: 'webhook-id',
    in: 'header',
    required: true,
    description:
      'The id of the event. It stays the same when the event is sent again. Events are delivered at least once: ignore an event whose id you already have.',
    schema: { type: 'string', format: 'uuid', examples: [EXAMPLE_EVENT_ID] },
  },
  'webhook-timestamp': {
    name: 'webhook-timestamp',
    in: 'header',
    required: true,
    description:
      'The time of this attempt, in Unix seconds. Refuse a webhook whose time differs from yours by more than 300 s.',
    schema: { type: 'string', pattern: '^[0-9]+$', examples: ['1795169731'] },
  },
  'webhook-signature': {
    name: 'webhook-signature',
    in: 'header',
    required: true,
    description:
      '`v1,` and the base64 of the HMAC-SHA256 of `<webhook-id>.<webhook-timestamp>.<body>`, over the raw bytes of the body, with the base64-decoded part of the secret. While several secrets are valid, there is one signature for each, separated by spaces. [How to verify it](/docs/guides/receiving-events#verify).',
    schema: { type: 'string', examples: ['v1,KKZLLoNhHzEqpaQwAjMP2jwrYQ+Rfd+ol5yKcAkNw4E='] },
  },
} as const

/** Replaces data that would make the body exceed 20 kB. */
const truncatedData = z
  .object({
    id: z.uuid().meta({ description: 'The id of the resource.', examples: [EXAMPLE_EVENT_ID] }),
    truncated: z.literal(true).meta({ description: 'Always true.', examples: [true] }),
  })
  .meta({
    id: 'TruncatedData',
    description:
      'Sent instead of the data if the body would exceed 20 kB. `GET /v1/events/{id}` returns the complete data; you can also retrieve the resource.',
  })

const REFUSED = {
  code: 'recipient_refused',
  message: 'The server refused the recipient.',
  provider_code: '550 5.1.1',
}
const UNDELIVERED = { ...REFUSED, message: 'The email bounced.' }
const BOUNCED = { code: REFUSED.provider_code, message: UNDELIVERED.message }
const COMPLAINED = { code: 'complaint', message: 'The recipient complained.' }

/** The example data of a type, where it differs from the examples of the fields. */
const EXAMPLES_BY_TYPE: Record<string, object> = {
  'customer.deleted': { name: null, email: null, phone: null, metadata: {}, deleted_at: EXAMPLE_TIME },
  'recipient.archived': { archived_at: EXAMPLE_TIME },
  'merchant.archived': { archived_at: EXAMPLE_TIME },
  'kyc.created': withoutUrl(PENDING_VERIFICATION),
  'kyc.recovered': withoutUrl(PENDING_VERIFICATION),
  'kyc.processing': { status: 'processing' },
  'kyc.approved': withoutUrl(DECIDED_VERIFICATION),
  'kyc.rejected': { ...withoutUrl(DECIDED_VERIFICATION), status: 'rejected', decision: 'rejected' },
  'payment.created': PENDING,
  'payment.recovered': { ...PENDING, processor_reference: PAYMENTS.examples.payment },
  'payment.requires_action': REQUIRES_ACTION,
  'payment.authorized': AUTHORIZED,
  'payment.authorization_failed': { ...REQUIRES_ACTION, failure: DECLINED },
  'payment.capture_expiring': AUTHORIZED,
  'payment.captured': CAPTURED,
  'payment.capture_failed': { ...AUTHORIZED, failure: PROCESSOR_FAILED },
  'payment.canceled': CANCELED,
  'payment.cancel_failed': { ...AUTHORIZED, failure: PROCESSOR_FAILED },
  'payment.failed': FAILED,
  'payment.disputed': disputed('needs_response'),
  'payment.dispute_won': disputed('won'),
  'payment.dispute_lost': disputed('lost'),
  'payment.dispute_closed': disputed('warning', EXAMPLE_TIME),
  'payout.created': PENDING_PAYOUT,
  'payout.recovered': { ...PENDING_PAYOUT, processor_reference: PAYOUTS.examples.payout },
  'payout.processing': PROCESSING_PAYOUT,
  'payout.paid': { ...PROCESSING_PAYOUT, status: 'paid', paid_at: EXAMPLE_TIME },
  'payout.fail_overtaken': {
    ...PROCESSING_PAYOUT,
    status: 'paid',
    paid_at: EXAMPLE_TIME,
    fail_requested_at: EXAMPLE_TIME,
  },
  'payout.failed': FAILED_MANUALLY,
  'payout.canceled': { ...CANCELED_PAYOUT, processing_at: null, arrival_date: null },
  'message.created': MESSAGE_QUEUED,
  'message.delivered': { status: 'delivered', delivered_at: EXAMPLE_TIME, ...recipientsOf('delivered') },
  'message.undelivered': { status: 'undelivered', failure: UNDELIVERED, ...recipientsOf('bounced', BOUNCED) },
  'message.failed': {
    ...MESSAGE_QUEUED,
    status: 'failed',
    failure: REFUSED,
    ...recipientsOf('refused', { code: REFUSED.provider_code, message: REFUSED.message }),
  },
  'message.unknown': { ...MESSAGE_QUEUED, status: 'unknown' },
  'message.suppressed': { ...MESSAGE_QUEUED, status: 'suppressed', ...recipientsOf('suppressed') },
  'message.canceled': MESSAGE_CANCELED,
  'message.bounced': { status: 'undelivered', failure: UNDELIVERED, ...recipientsOf('bounced', BOUNCED) },
  'message.received': SMS_RECEIVED,
  'message.complained': {
    status: 'delivered',
    delivered_at: EXAMPLE_TIME,
    to: ['ada@example.com', 'grace@example.com'],
    ...recipientsOf('bounced', COMPLAINED),
  },
  'refund.created': { status: 'pending', processor_reference: null },
  'refund.recovered': { status: 'pending' },
  'refund.failed': { status: 'failed', failure: PROCESSOR_FAILED },
  'top_up.created': TOP_UP_PENDING,
  'top_up.recovered': { ...TOP_UP_PENDING, processor_reference: TOP_UPS.examples.top_up },
  'top_up.failed': { ...TOP_UP_FAILED, succeeded_at: null },
  'top_up.canceled': { status: 'canceled', succeeded_at: null },
  'top_up.reversed': TOP_UP_FAILED,
  'webhook_endpoint.disabled': { status: 'disabled', disabled_reason: 'failing' },
  'ai_task.created': AI_TASK_QUEUED,
  'ai_task.failed': AI_TASK_FAILED,
  'ai_task.canceled': { ...AI_TASK_QUEUED, status: 'canceled', finished_at: EXAMPLE_TIME },
} satisfies Partial<Record<EventType, object>>

/** A captured payment with a dispute of this status. */
function disputed(status: string, closed_at: string | null = null): object {
  const dispute = {
    id: '0198f6f4-d150-7000-8000-123456789abc',
    processor_reference: PAYMENTS.examples.dispute,
    status,
    reason: 'fraudulent',
    amount_minor: 1000,
    currency: 'USD',
    evidence_due_by: status === 'needs_response' ? '2026-11-29T23:59:59.000000Z' : null,
    opened_at: EXAMPLE_TIME,
    closed_at: status === 'won' || status === 'lost' ? EXAMPLE_TIME : closed_at,
  }
  return { ...CAPTURED, dispute }
}

/** The example without `url`: events never contain the link of a verification. */
function withoutUrl({ url: _url, ...rest }: { url: null }): object {
  return rest
}

/**
 * The webhooks of the document, by type. The tag of a webhook is the table of its resource. `timelines`: the paths of
 * timelines, by tag.
 */
export function eventsOf(schemas: Schemas, timelines: Map<string, string>): Record<string, JsonSchema> {
  return Object.fromEntries(
    EVENTS.map(({ type, resource, about, data }) => {
      const timeline = timelines.get(resourceOf(rootOf(resource)).table)
      const timeline_text = timeline === undefined ? '' : `, and \`GET ${timeline}\` shows it`
      const description = `${about} \`GET /v1/events\` lists it${timeline_text}.`
      const tag = resourceOf(resource).table
      const schema = schemas.of(withLivemode(data), 'output')
      return [type, { post: eventOperation(type, tag, description, schema, schemas) }]
    }),
  )
}

const example_schemas = createSchemas()
const examples = new Map<EventType, JsonSchema>()

/** Example data of an event of this type, created once. */
export function exampleOfEvent(type: EventType): object {
  const { data } = EVENTS.find((event) => event.type === type)!
  const schema = example_schemas.of(withLivemode(data), 'output')
  const example = examples.get(type) ?? dataOf(type, schema, example_schemas)
  examples.set(type, example)
  return example
}

function dataOf(type: string, data: JsonSchema, schemas: Schemas): JsonSchema {
  return { ...(schemas.exampleOf(data) as object), ...EXAMPLES_BY_TYPE[type] }
}

function eventOperation(
  type: string,
  tag: string,
  description: string,
  data: JsonSchema,
  schemas: Schemas,
): JsonSchema {
  const example = dataOf(type, data, schemas)
  return {
    operationId: `on${nameOfType(type)}`,
    summary: type,
    description,
    tags: [tag],
    security: [],
    parameters: Object.keys(EVENT_HEADERS).map((name) => ({
      $ref: `#/components/parameters/${componentName(name)}`,
    })),
    requestBody: {
      required: true,
      description: 'The event.',
      content: {
        'application/json': {
          schema: webhookBody(type, [data, schemas.of(truncatedData, 'output')], schemas),
          example: {
            id: EXAMPLE_EVENT_ID,
            type,
            timestamp: example['updated_at'] ?? EXAMPLE_TIME,
            sequence: 42,
            tenant_id: example['tenant_id'] ?? EXAMPLE_TENANT_ID,
            livemode: true,
            data: example,
          },
        },
      },
    },
    responses: {
      '2XX': { description: 'The event was received.' },
      410: { description: 'The event is not sent again, and the endpoint is disabled.' },
      default: { description: 'The event was not received, and is sent again. Redirects are not followed.' },
    },
  }
}

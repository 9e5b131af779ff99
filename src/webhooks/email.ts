// Notifications of email: `POST /email`. Relays report bounces, complaints and deliveries as Standard Webhooks.
import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import { EMAIL } from '#core/config/providers.ts'
import { list } from '#core/config/list.ts'
import { describeIssue } from '#core/describe.ts'
import type { MessageProviderEvent } from '#domain/messages/update.ts'
import { notificationOf } from '#domain/notifications/notification.ts'
import { verifyStandard } from '#providers/signatures.ts'
import type {
  NotificationRoute,
  ReceivedNotification,
  StoreNotification,
  WebhooksContext,
} from './context.ts'
import { headerOf, parseJson, nowSeconds, rawBody, createNotificationRefusals } from './refuse.ts'

export const emailNotifications: NotificationRoute = {
  path: '/email',
  route: emailRoute,
}

const recipient = z.object({ message_id: z.uuid(), address: z.string().min(1).max(320) })
const bounced = recipient.extend({
  bounce: z.enum(['hard', 'soft']),
  diagnostic: z.string().nullish(),
})
const recognizedEvent = z.discriminatedUnion('type', [
  z.object({ type: z.literal('email.delivered'), data: recipient }),
  z.object({ type: z.literal('email.complained'), data: recipient }),
  z.object({ type: z.literal('email.bounced'), data: bounced }),
])
type EmailEvent = z.output<typeof recognizedEvent>
const RECOGNIZED_TYPES: ReadonlySet<string> = new Set(
  recognizedEvent.options.map(({ shape }) => shape.type.value),
)
const anyEvent = z.object({ type: z.string() })

/** Finds the codes in a diagnostic text. Only the codes are stored, because the rest can name people. */
const STATUS_CODES = /^\s*(?:smtp;\s*)?([245]\d\d)?[ -]*([245]\.\d{1,3}\.\d{1,3})?/i

function emailRoute(
  app: FastifyInstance,
  context: WebhooksContext,
  storeNotification: StoreNotification,
): void {
  const { config, log } = context
  const refuse = createNotificationRefusals(EMAIL.provider, log)
  app.post(emailNotifications.path, async (request, reply) => {
    const secrets = list(config.EMAIL_WEBHOOK_SECRET ?? '')
    if (secrets.length === 0) return await refuse.signature('not configured', request, reply)
    const raw = rawBody(request)
    const [id, timestamp, signature] = ['id', 'timestamp', 'signature'].map((name) =>
      headerOf(request, `webhook-${name}`),
    )
    const verdict = verifyStandard(raw, { id, timestamp, signature }, secrets, nowSeconds())
    if (verdict !== 'valid' || id === undefined)
      return await refuse.signature(verdict === 'valid' ? 'malformed' : verdict, request, reply)
    const body = parseJson(raw)
    const { data: { type } = {}, error: type_error } = anyEvent.safeParse(body, { error: describeIssue })
    const { data: event, error: event_error } = recognizedEvent.safeParse(body, { error: describeIssue })
    if (type === undefined || (RECOGNIZED_TYPES.has(type) && event === undefined))
      return await refuse.content(request, reply, problemOfContent(type_error ?? event_error))
    const is_new = await storeNotification(toArrival(context, id, event), request, reply)
    return { received: true, ...(!is_new && { duplicate: true }) }
  })
}

/** The problem of the first invalid field, without its value. */
function problemOfContent(error: z.ZodError | undefined): string | undefined {
  const [issue] = error?.issues ?? []
  return issue && `${issue.path.join('.') || 'the body'} ${issue.message}`
}

/** The notification to store. `event`: undefined for an event type that is not recognized. */
function toArrival(
  { hashOf }: WebhooksContext,
  event_id: string,
  event: EmailEvent | undefined,
): ReceivedNotification {
  const about = { account: '', event_id, reported: null }
  if (event === undefined)
    return notificationOf(
      { provider: EMAIL.provider, livemode: true },
      {
        ...about,
        kind: 'email.other',
        object_id: null,
        payload: {},
        is_relevant: false,
      },
    )
  const { message_id, address } = event.data
  const payload: MessageProviderEvent = {
    about: 'email',
    message_id,
    address: hashOf('email', address),
    reported: reportedBy(event),
    code: event.type === 'email.bounced' ? codesIn(event.data.diagnostic ?? '') : null,
  }
  return notificationOf(
    { provider: EMAIL.provider, livemode: true },
    {
      ...about,
      kind: event.type,
      object_id: message_id,
      payload,
      is_relevant: true,
    },
  )
}

function reportedBy(event: EmailEvent): 'delivered' | 'complaint' | 'hard_bounce' | 'soft_bounce' {
  if (event.type === 'email.bounced') return event.data.bounce === 'hard' ? 'hard_bounce' : 'soft_bounce'
  return event.type === 'email.delivered' ? 'delivered' : 'complaint'
}

function codesIn(diagnostic: string): string | null {
  const [, basic, enhanced] = STATUS_CODES.exec(diagnostic) ?? []
  const codes = [basic, enhanced].filter((code) => code !== undefined)
  return codes.length === 0 ? null : codes.join(' ')
}

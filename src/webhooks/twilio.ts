// Notifications from Twilio: `POST /twilio`, status callbacks of SMS and replies to them.
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import { ConfigError, requireVariable } from '#core/config.ts'
import { AppError } from '#core/errors.ts'
import { SMS } from '#core/config/providers.ts'
import { list } from '#core/config/list.ts'
import type { Vault } from '#core/secrets.ts'
import { webhooksUrl } from '#core/startup.ts'
import { createInboundVault, inboundNotification } from '#domain/messages/inbound.ts'
import type { MessageProviderEvent } from '#domain/messages/update.ts'
import { notificationOf } from '#domain/notifications/notification.ts'
import { isTwilioSignature, verifyTwilio } from '#providers/signatures.ts'
import { readTwilioPost, type TwilioPost } from '#providers/twilio/events.ts'
import type {
  NotificationRoute,
  ReceivedNotification,
  StoreNotification,
  WebhooksContext,
} from './context.ts'
import { headerOf, rawBody, createNotificationRefusals } from './refuse.ts'

const SIGNATURE = 'x-twilio-signature'

export const twilioNotifications: NotificationRoute = {
  path: '/twilio',
  route: twilioRoute,
}

/**
 * The minimum length of a token. The `api` process accepts any token, for example `set`. This process does not, because
 * anyone could forge notifications with a guessed token.
 */
const MIN_TOKEN_LENGTH = 12
/**
 * The limit of a form. An SMS has at most 1,600 characters. The whole form must be read before its sender is verified,
 * because the signature covers it.
 */
const MAX_FORM_BYTES = 64 * 1024
/** The maximum number of parameters of a form. An SMS has about 30, and an SMS with ten pictures about 50. */
const MAX_PARAMETERS = 300
/** The answer to Twilio. It is empty, so Twilio sends no reply to the person. */
const EMPTY_TWIML = '<Response/>'
const query = z.object({ m: z.uuid().optional().catch(undefined) })

/** Why the webhooks host cannot verify signatures with a value of TWILIO_AUTH_TOKEN, or null. */
export function problemOfTwilioToken(value: string): string | null {
  return list(value).some(({ length }) => length < MIN_TOKEN_LENGTH)
    ? `TWILIO_AUTH_TOKEN is shorter than ${MIN_TOKEN_LENGTH} characters. The webhooks host verifies signatures with it: set the real token.`
    : null
}

function twilioRoute(
  app: FastifyInstance,
  context: WebhooksContext,
  storeNotification: StoreNotification,
): void {
  const { config, log } = context
  const currentTokens = () => list(config.TWILIO_AUTH_TOKEN ?? '')
  const problem = problemOfTwilioToken(config.TWILIO_AUTH_TOKEN ?? '')
  if (problem !== null) throw new ConfigError(problem)
  // Twilio signs the URL that is configured at Twilio. The Host header of a request cannot be trusted.
  const origin = webhooksUrl(config)
  const refuse = createNotificationRefusals(SMS.provider, log)
  const vault = createInboundVault(requireVariable(config, 'ADDRESS_KEY'))

  // Refuses a header that cannot be valid, before the body is read.
  async function onRequest(request: FastifyRequest, reply: FastifyReply): Promise<unknown> {
    if (currentTokens().length === 0) return await refuse.signature('not configured', request, reply)
    if (isTwilioSignature(headerOf(request, SIGNATURE))) return undefined
    return await refuse.signature('malformed', request, reply)
  }
  const bodyLimit = MAX_FORM_BYTES
  app.post(twilioNotifications.path, { bodyLimit, onRequest }, async (request, reply) => {
    const posted = parseForm(rawBody(request))
    const signature = headerOf(request, SIGNATURE)
    const verdict = verifyTwilio(`${origin}${request.url}`, posted, signature, currentTokens())
    if (verdict !== 'valid') return await refuse.signature(verdict, request, reply)
    const post = readTwilioPost(Object.fromEntries(posted))
    if (post === undefined) return await refuse.content(request, reply)
    await storeNotification(
      toArrival({ ...context, vault }, post, query.parse(request.query).m ?? null),
      request,
      reply,
    )
    return reply.type('text/xml').send(EMPTY_TWIML)
  })
}

/** Parses a form. Throws `payload_too_large`, before parsing, if the form has too many parameters. */
function parseForm(raw: Buffer): URLSearchParams {
  const text = raw.toString('utf8')
  if (text.split('&', MAX_PARAMETERS + 1).length > MAX_PARAMETERS)
    throw new AppError('payload_too_large', {
      message: `The form has more than ${MAX_PARAMETERS} parameters.`,
    })
  return new URLSearchParams(text)
}

/** The notification to store. `message_id`: the id of our message from the callback URL, if there is one. */
function toArrival(
  { hashOf, vault }: WebhooksContext & { vault: Vault },
  post: TwilioPost,
  message_id: string | null,
): ReceivedNotification {
  const { account, sid } = post
  const about = { account, object_id: sid, reported: null }
  if (post.kind === 'inbound') {
    return inboundNotification({ vault, hashOf }, { ...post, livemode: true, received_at: null })
  }
  const { provider_status, status, failure } = post
  const is_relevant = status !== null
  const payload: MessageProviderEvent | Record<string, never> =
    status === null ? {} : { about: 'sms', message_id, reference: sid, status, provider_status, failure }
  return notificationOf(
    { provider: SMS.provider, livemode: true },
    {
      ...about,
      event_id: `${sid}:${provider_status}`,
      kind: `sms.${provider_status}`,
      payload,
      is_relevant,
    },
  )
}

// The routes that send up to a hundred messages: each is accepted or refused by itself.
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import { z } from 'zod'
import type { Json } from '#core/db.ts'
import { AppError } from '#core/errors.ts'
import { createGates } from '#core/gate.ts'
import { anyJson } from '#core/json.ts'
import { messageSchema } from '#domain/messages/message.ts'
import { acceptOneOfMany } from '../../accept.ts'
import type { RouteContext } from '../../context.ts'
import { errorBody } from '../../openapi/error.ts'
import { route } from '../../route.ts'
import { parsedMessage } from '../../validate.ts'
import { emailBody, MANY_EMAILS_TAKE, MANY_SMS_TAKE, smsBody } from './bodies.ts'
import { EMAIL_REQUESTS, MESSAGE_QUEUED, OF_SMS, SMS_REQUESTS } from './examples.ts'
import { HELD_BYTES_OF_TENANT, type TakeRoom } from './asker.ts'
import type { Sendings } from './send.ts'
import type { Sending } from './sending.ts'

const MOST_MESSAGES = 100
/** So many of a tenant that were accepted before are read again at once: each can be large, and its request short. */
const READ = {
  running: 8,
  queue: {
    waiting: 2_000,
    wait_ms: 10_000,
    refuse: () =>
      new AppError('rate_limited', {
        retry_after_s: 1,
        message:
          'Too many messages that were accepted before are read at once: ask again in smaller batches.',
      }),
  },
}

/** Each is checked by itself, so that what is wrong with one refuses no other. */
const many = (id: string, item: string, example: object) =>
  z
    .strictObject({
      messages: z
        .array(anyJson)
        .min(1)
        .max(MOST_MESSAGES)
        .meta({
          description: 'The messages, each with its own key.',
          items: { $ref: `#/components/schemas/${item}` },
          example: [example],
        }),
    })
    .meta({ id, description: `Up to ${MOST_MESSAGES} messages.` })

const manyEmails = many('SendEmailBatch', 'SendEmail', EMAIL_REQUESTS.email.value)
const manySms = many('SendSmsBatch', 'SendSms', SMS_REQUESTS.sms.value)

const answered = z
  .object({
    status: z.int().meta({
      description:
        'The status that the message would have been answered with on its own: 202 while it is queued, 201 if it is scheduled or suppressed, otherwise that of its error.',
      example: 202,
    }),
    message: messageSchema
      .optional()
      .meta({ description: 'The message, if it was accepted, now or before.' }),
    error: errorBody.optional().meta({ description: 'Why it was refused.' }),
  })
  .meta({ id: 'MessageAnswer', description: 'The result for one message of the batch.' })

/** How an answer differs from the examples of its fields. */
const ACCEPTED = { message: MESSAGE_QUEUED, error: undefined }

type Item = z.output<typeof answered>

const DESCRIPTION =
  'Each message is accepted or refused on its own, with its own key, limits and errors. The answer has one item for each, in the same order. A key means the same as on the route for one message; the header `Idempotency-Key` is ignored here. The request does not wait for the messages to be sent; a message that was certainly not sent is retried.'

/** Of many each needs a key of its own. */
const withKey = <Body extends Keyed>(schema: z.ZodType<Body>) =>
  schema.refine((body) => body.idempotency_key !== undefined, {
    path: ['idempotency_key'],
    error: 'is required',
  })
const keyedEmail = withKey(emailBody)
const keyedSms = withKey(smsBody)

type Texts = { [Part in 'text' | 'html' | 'body']?: string | null | undefined }
type Keyed = Texts & { idempotency_key?: string | undefined }

export function batchRoutes(
  root: FastifyInstance,
  context: RouteContext,
  { askerOf, email, sms }: Sendings,
): void {
  const app = root.withTypeProvider<ZodTypeProvider>()
  const read = createGates(READ)

  app.post(
    '/v1/messages/email/batch',
    route({
      area: 'messages',
      scope: 'messaging:write',
      tag: 'messages',
      operation_id: 'sendEmails',
      summary: 'Send several emails',
      description: `${DESCRIPTION} The request may have up to 15 MiB. Together with the texts in its answer and other requests of the tenant at the same time, it may take ${HELD_BYTES_OF_TENANT / 1024 / 1024} MiB; anything more is refused with \`overloaded\`.`,
      body: manyEmails,
      takes: MANY_EMAILS_TAKE,
      sends: 'email',
      large: 'counted',
      response: { 200: z.array(answered) },
      examples: {
        requests: { emails: { summary: 'Emails', value: { messages: [EMAIL_REQUESTS.email.value] } } },
        answer: ACCEPTED,
      },
      errors: [],
    }),
    async (request) => await answerEach(request, '/v1/messages/email', readEach(request, keyedEmail), email),
  )

  app.post(
    '/v1/messages/sms/batch',
    route({
      area: 'messages',
      scope: 'messaging:write',
      tag: 'messages',
      operation_id: 'sendManySms',
      summary: 'Send several SMS',
      description: DESCRIPTION,
      body: manySms,
      takes: MANY_SMS_TAKE,
      sends: 'sms',
      large: 'counted',
      response: { 200: z.array(answered) },
      examples: {
        requests: { sms: { summary: 'SMS', value: { messages: [SMS_REQUESTS.sms.value] } } },
        answer: { ...ACCEPTED, message: { ...MESSAGE_QUEUED, ...OF_SMS, provider_reference: null } },
      },
      errors: [],
    }),
    async (request) => await answerEach(request, '/v1/messages/sms', readEach(request, keyedSms), sms),
  )

  function readEach<Body>(
    request: FastifyRequest<{ Body: { messages: Json[] } }>,
    schema: z.ZodType<Body>,
  ): ({ body: Body } | Item)[] {
    return request.body.messages.map((message) => {
      try {
        return { body: parsedMessage(schema, message) }
      } catch (error) {
        return context.shown(error, request)
      }
    })
  }

  async function answerEach<Body extends Keyed>(
    request: FastifyRequest<{ Body: { messages: Json[] } }>,
    path: string,
    given: ({ body: Body } | Item)[],
    sending: Sending<Body>,
  ): Promise<Item[]> {
    const asker = askerOf(request)
    const { tenant_id } = asker
    const answerOf = async (body: Body, take: TakeRoom): Promise<Item> => {
      const key = body.idempotency_key ?? null
      const asked = { tenant_id, key, route: `POST ${path}`, request_id: request.id }
      // What was given is held as part of the request.
      let taken = bytesOf(body)
      const takeMore = (bytes: number): void => {
        take(bytes)
        taken += bytes
      }
      const { answers, ...work } = sending(body, { ...asker, hold: (step) => step(takeMore) })
      const find: typeof answers.find = (wanted) =>
        read(tenant_id, async () => {
          const found = await answers.find(wanted)
          takeMore(Math.max(0, bytesOf(found.resource) - taken))
          return found
        })
      try {
        const { status, resource } = await acceptOneOfMany(context, asked, {
          ...work,
          answers: { ...answers, find },
        })
        return { status, message: resource }
      } catch (error) {
        return context.shown(error, request)
      }
    }
    // The answer shows every text, also one that was rendered: what they take is held until it is whole.
    return await asker.hold(
      async (take) =>
        await Promise.all(
          given.map(async (each) => ('body' in each ? await answerOf(each.body, take) : each)),
        ),
    )
  }
}

function bytesOf({ text, html, body }: Texts): number {
  return [text, html, body].reduce((sum, part) => sum + Buffer.byteLength(part ?? ''), 0)
}

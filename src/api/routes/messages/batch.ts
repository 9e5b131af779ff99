// The routes that send up to 100 messages.
import { z } from 'zod'
import { anyJson } from '#core/json.ts'
import type { RouteApp, RouteContext } from '../../context.ts'
import { route } from '../../route.ts'
import { emailBody, EMAIL_BATCH_LIMITS, SMS_BATCH_LIMITS, smsBody } from './bodies.ts'
import { EMAIL_REQUESTS, MESSAGE_QUEUED, SMS_MESSAGE, SMS_REQUESTS } from './examples.ts'
import { MAX_BUFFERED_BYTES_PER_TENANT } from './requester.ts'
import { batchAnswer, createAnswerBatch, type KeyedBody } from './batch-answers.ts'
import type { MessageWorks } from './send.ts'

const MAX_BATCH_SIZE = 100

/** Messages are validated one by one, so that an invalid message does not cause the refusal of the others. */
const batchOf = (id: string, item: string, example: object) =>
  z
    .strictObject({
      messages: z
        .array(anyJson)
        .min(1)
        .max(MAX_BATCH_SIZE)
        .meta({
          description: 'The messages, each with its own key.',
          items: { $ref: `#/components/schemas/${item}` },
          example: [example],
        }),
    })
    .meta({ id, description: `Up to ${MAX_BATCH_SIZE} messages.` })

const emailBatch = batchOf('SendEmailBatch', 'SendEmail', EMAIL_REQUESTS.email.value)
const smsBatch = batchOf('SendSmsBatch', 'SendSms', SMS_REQUESTS.sms.value)

/** The fields in which an example item of an answer differs from the examples of its schema. */
const ACCEPTED = { message: MESSAGE_QUEUED, error: undefined }

const DESCRIPTION =
  'Each message is accepted or refused on its own, with its own key, limits and errors. The answer has one item for each, in the same order. Keys are shared with the route that sends one message; the header `Idempotency-Key` is ignored here. The request does not wait for the messages to be sent; a message that was certainly not sent is retried.'

/** Each message of a batch needs its own key. */
const withKey = <Body extends KeyedBody>(schema: z.ZodType<Body>) =>
  schema.refine((body) => body.idempotency_key !== undefined, {
    path: ['idempotency_key'],
    error: 'is required',
  })
const keyedEmail = withKey(emailBody)
const keyedSms = withKey(smsBody)

export function batchRoutes(
  app: RouteApp,
  context: RouteContext,
  { requesterOf, email, sms }: MessageWorks,
): void {
  const answerBatch = createAnswerBatch(context, requesterOf)

  app.post(
    '/v1/messages/email/batch',
    route({
      area: 'messages',
      scope: 'messaging:write',
      tag: 'messages',
      operation_id: 'sendEmails',
      summary: 'Send several emails',
      description: `${DESCRIPTION} The request may have up to 15 MiB. All requests of the tenant in progress, with the texts in their answers, may occupy ${MAX_BUFFERED_BYTES_PER_TENANT / 1024 / 1024} MiB together; messages beyond that are refused with \`overloaded\`.`,
      body: emailBatch,
      body_limits: EMAIL_BATCH_LIMITS,
      sends: 'email',
      large: 'counted',
      response: { 200: z.array(batchAnswer) },
      examples: {
        requests: { emails: { summary: 'Emails', value: { messages: [EMAIL_REQUESTS.email.value] } } },
        answer: ACCEPTED,
      },
      errors: [],
    }),
    async (request) =>
      await answerBatch(request, { path: '/v1/messages/email', schema: keyedEmail, messageWork: email }),
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
      body: smsBatch,
      body_limits: SMS_BATCH_LIMITS,
      sends: 'sms',
      large: 'counted',
      response: { 200: z.array(batchAnswer) },
      examples: {
        requests: { sms: { summary: 'SMS', value: { messages: [SMS_REQUESTS.sms.value] } } },
        answer: { ...ACCEPTED, message: { ...MESSAGE_QUEUED, ...SMS_MESSAGE, provider_reference: null } },
      },
      errors: [],
    }),
    async (request) =>
      await answerBatch(request, { path: '/v1/messages/sms', schema: keyedSms, messageWork: sms }),
  )
}

// The routes that send up to a hundred messages.
import { z } from 'zod'
import { anyJson } from '#core/json.ts'
import type { RouteApp, RouteContext } from '../../context.ts'
import { route } from '../../route.ts'
import { emailBody, MANY_EMAILS_TAKE, MANY_SMS_TAKE, smsBody } from './bodies.ts'
import { EMAIL_REQUESTS, MESSAGE_QUEUED, OF_SMS, SMS_REQUESTS } from './examples.ts'
import { HELD_BYTES_OF_TENANT } from './asker.ts'
import { answered, createAnswerEach, type Keyed } from './many.ts'
import type { Sendings } from './send.ts'

const MOST_MESSAGES = 100

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

/** How an answer differs from the examples of its fields. */
const ACCEPTED = { message: MESSAGE_QUEUED, error: undefined }

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

export function batchRoutes(app: RouteApp, context: RouteContext, { askerOf, email, sms }: Sendings): void {
  const answerEach = createAnswerEach(context, askerOf)

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
    async (request) =>
      await answerEach(request, { path: '/v1/messages/email', schema: keyedEmail, sending: email }),
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
    async (request) =>
      await answerEach(request, { path: '/v1/messages/sms', schema: keyedSms, sending: sms }),
  )
}

// The routes that send one message.
import type { ErrorCode } from '#core/errors.ts'
import { messageSchema } from '#domain/messages/message.ts'
import { accept } from '../../accept.ts'
import type { RouteApp, RouteContext } from '../../context.ts'
import { route } from '../../route.ts'
import type { RequesterOf } from './requester.ts'
import { emailBody, EMAIL_BODY_LIMITS, smsBody, type EmailBody, type SmsBody } from './bodies.ts'
import { EMAIL_REQUESTS, MESSAGE_QUEUED, SMS_MESSAGE, SMS_REQUESTS } from './examples.ts'
import type { MessageWork } from './sending.ts'

const waiting = (refusal: ErrorCode): string =>
  `If you wait and the provider does not accept the message, the answer is an error, and that is final: \`${refusal}\`. If you do not wait (\`Prefer: respond-async\`), a message that was certainly not sent and may succeed later is attempted up to five times. If it is not known whether the provider accepted the message, the answer is 202 with the status \`unknown\`; it is never sent again automatically. A message that is \`scheduled\` or \`suppressed\` is answered 201 at once.`

const REFUSALS = [
  'template_not_found',
  'template_invalid',
  'idempotency_key_reused',
] as const satisfies ErrorCode[]

export type MessageWorks = {
  requesterOf: RequesterOf
  email: MessageWork<EmailBody>
  sms: MessageWork<SmsBody>
}

export function sendRoutes(
  app: RouteApp,
  context: RouteContext,
  { requesterOf, email, sms }: MessageWorks,
): void {
  app.post(
    '/v1/messages/email',
    route({
      area: 'messages',
      scope: 'messaging:write',
      tag: 'messages',
      operation_id: 'sendEmail',
      summary: 'Send an email',
      description: `The answer comes when the server has accepted the email for at least one of the recipients; \`recipients\` shows the outcome for each. ${waiting('email_send_failed')} Suppressed recipients get nothing. The request may have up to 15 MiB.`,
      body: emailBody,
      body_limits: EMAIL_BODY_LIMITS,
      sends: 'email',
      large: 'counted',
      response: { 201: messageSchema, 202: messageSchema },
      waits: 'by_default',
      key: 'required',
      examples: { requests: EMAIL_REQUESTS, unfinished: MESSAGE_QUEUED },
      errors: [...REFUSALS, 'email_send_failed'],
    }),
    async (request, reply) => {
      const { body } = request
      return await accept(context, request, reply, { body, ...email(body, requesterOf(request)) })
    },
  )

  app.post(
    '/v1/messages/sms',
    route({
      area: 'messages',
      scope: 'messaging:write',
      tag: 'messages',
      operation_id: 'sendSms',
      summary: 'Send an SMS',
      description: `The answer comes when the provider has accepted the SMS. ${waiting('sms_send_failed')} \`segments\` is the number of segments, each of which is charged; \`price\` comes later.`,
      body: smsBody,
      sends: 'sms',
      response: { 201: messageSchema, 202: messageSchema },
      waits: 'by_default',
      key: 'required',
      examples: {
        requests: SMS_REQUESTS,
        answer: SMS_MESSAGE,
        unfinished: { ...MESSAGE_QUEUED, ...SMS_MESSAGE, provider_reference: null },
      },
      errors: [...REFUSALS, 'destination_not_allowed', 'sms_send_failed'],
    }),
    async (request, reply) => {
      const { body } = request
      return await accept(context, request, reply, { body, ...sms(body, requesterOf(request)) })
    },
  )
}

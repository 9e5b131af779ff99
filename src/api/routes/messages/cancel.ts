// The route that cancels a message.
import { z } from 'zod'
import { AppError } from '#core/errors.ts'
import { cancelMessage } from '#domain/messages/cancel.ts'
import { findMessageByKey } from '#domain/messages/find.ts'
import { messageSchema, type Message } from '#domain/messages/message.ts'
import type { ResourceReader } from '../../accept.ts'
import { acceptWithoutJob } from '../../accept-without-job.ts'
import { idempotencyKey } from '../../body.ts'
import type { RouteApp, RouteContext } from '../../context.ts'
import { idParams, route } from '../../route.ts'
import { openMessage } from './answers.ts'
import { MESSAGE_CANCELED } from './examples.ts'

const cancelBody = z
  .strictObject({ idempotency_key: idempotencyKey.meta({ example: 'order-17-unship' }).optional() })
  .meta({ id: 'CancelMessage', description: 'Only an idempotency key.' })
  .nullish()

export function cancelMessageRoute(
  app: RouteApp,
  context: RouteContext,
  reader: ResourceReader<Message>,
): void {
  const { sql, vault } = context

  app.post(
    '/v1/messages/:id/cancel',
    route({
      area: 'messages',
      scope: 'messaging:write',
      tag: 'messages',
      operation_id: 'cancelMessage',
      summary: 'Cancel a message',
      description:
        'Cancels a message that is `scheduled` or `queued`, so that it is never sent. Any other message cannot be recalled.',
      params: idParams,
      body: cancelBody,
      large: 'expected',
      response: { 200: messageSchema },
      key: 'optional',
      examples: {
        requests: { bare: { summary: 'The body is optional', value: {} } },
        answer: MESSAGE_CANCELED,
      },
      errors: ['message_not_found', 'message_not_cancelable', 'idempotency_key_reused'],
    }),
    async (request, reply) => {
      const { tenant_id } = request.credentials
      const message_id = request.params.id
      const row = await acceptWithoutJob(context, request, reply, {
        body: request.body ?? {},
        step: (requested, { event_id }) => cancelMessage(sql, { ...requested, message_id, event_id }),
        find: (sent) => findMessageByKey(sql, sent),
        async explainRefusal() {
          const { status } = (await reader.find({ tenant_id, id: message_id, job_id: null })).resource
          return new AppError('message_not_cancelable', {
            message: `The message cannot be canceled: it is ${status}.`,
            context: { status },
          })
        },
      })
      return openMessage(vault, row)
    },
  )
}

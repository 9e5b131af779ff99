// The route that suppresses an address.
import { z } from 'zod'
import { AppError } from '#core/errors.ts'
import { messageChannel } from '#domain/messages/message.ts'
import { findSuppressionByKey } from '#domain/suppressions/find.ts'
import { suppress } from '#domain/suppressions/request.ts'
import { suppressionContext, suppressionSchema } from '#domain/suppressions/suppression.ts'
import { acceptWithoutJob } from '../../accept-without-job.ts'
import { bareEmail, e164 } from '../../addresses.ts'
import { idempotencyKey, metadata } from '../../body.ts'
import type { RouteApp, RouteContext } from '../../context.ts'
import { route } from '../../route.ts'
import type { SuppressionView } from './answers.ts'

const ADDRESSES = { email: bareEmail, sms: e164 }

const createBody = z
  .strictObject({
    channel: messageChannel,
    address: z.string().meta({
      description: 'An email address without a name, or a number in E.164 format. Case is ignored.',
      example: 'grace@example.com',
    }),
    metadata,
    idempotency_key: idempotencyKey.meta({ example: 'suppress-17' }).optional(),
  })
  .superRefine(({ channel, address }, check) => {
    const { error } = ADDRESSES[channel].safeParse(address)
    const [problem] = error?.issues ?? []
    if (problem !== undefined) check.addIssue({ code: 'custom', path: ['address'], message: problem.message })
  })
  .meta({ id: 'CreateSuppression', description: 'An address or number that should no longer get messages.' })

export function createSuppressionRoute(app: RouteApp, context: RouteContext, view: SuppressionView): void {
  const { sql, vault, hashOf } = context

  app.post(
    '/v1/messages/suppressions',
    route({
      area: 'messages',
      scope: 'messaging:write',
      tag: 'suppressions',
      operation_id: 'createSuppression',
      summary: 'Suppress an address',
      description:
        'Nothing is sent to the address any more, including messages that were accepted before and have not been sent. If you have already suppressed the address, the answer is 200 with the existing suppression. A suppression with another reason does not prevent a new one.',
      body: createBody,
      key: 'optional',
      examples: {
        requests: {
          email: { summary: 'An email address', value: { channel: 'email', address: 'grace@example.com' } },
          sms: { summary: 'A number', value: { channel: 'sms', address: '+14155552671' } },
        },
        answer: { reason: 'manual', idempotency_key: null, metadata: {} },
      },
      response: { 200: suppressionSchema, 201: suppressionSchema },
      errors: ['suppression_not_found', 'idempotency_key_reused'],
    }),
    async (request, reply) => {
      const { channel, address, metadata } = request.body
      const { row, is_new } = await acceptWithoutJob(context, request, reply, {
        body: request.body,
        async step(requested, { id: suppression_id, event_id }) {
          const row = await suppress(sql, {
            ...requested,
            suppression_id,
            event_id,
            channel,
            address: hashOf(channel, address),
            sealed: vault.seal(address, suppressionContext(requested.tenant_id, suppression_id)),
            metadata,
          })
          return row === 'key_used' ? row : { row, is_new: row.id === suppression_id }
        },
        async find(sent) {
          const stored = await findSuppressionByKey(sql, sent)
          if (stored === undefined) return undefined
          const { fingerprint, resource } = stored
          const { sealed } = resource
          if (sealed === null)
            throw new AppError('suppression_not_found', { message: 'The suppression has been deleted.' })
          const is_new = resource.idempotency_key === sent.key
          return { fingerprint, resource: { row: { ...resource, sealed }, is_new } }
        },
      })
      if (!is_new) reply.code(200)
      return view(row)
    },
  )
}

// Routes of suppressions.
import type { FastifyInstance } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { CHANNELS } from '#core/addresses.ts'
import { AppError } from '#core/errors.ts'
import { newId } from '#core/ids.ts'
import { messageChannel } from '#domain/messages/message.ts'
import {
  findProtectedSuppression,
  findSuppression,
  listSuppressions,
  type SuppressionRow,
} from '#domain/suppressions/find.ts'
import { liftSuppression, suppress } from '#domain/suppressions/request.ts'
import {
  suppressionPlace,
  suppressionReason,
  suppressionSchema,
  type Suppression,
} from '#domain/suppressions/suppression.ts'
import { acceptAtOnce } from '../accept.ts'
import { bareEmail, e164 } from '../addresses.ts'
import { idempotencyKey, metadata } from '../body.ts'
import type { RouteContext } from '../context.ts'
import { found } from '../refusals.ts'
import { idParams, nextPage, pageQuery, route } from '../route.ts'
import { soughtRecipient } from './messages/recipients.ts'

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
    const [fault] = error?.issues ?? []
    if (fault !== undefined) check.addIssue({ code: 'custom', path: ['address'], message: fault.message })
  })
  .meta({ id: 'CreateSuppression', description: 'An address or number that should no longer get messages.' })

const filters = pageQuery.extend({
  channel: messageChannel.optional().meta({ description: 'Filter by channel.' }),
  address: soughtRecipient
    .optional()
    .meta({ description: 'Filter by address or number.', example: 'grace@example.com' }),
  reason: suppressionReason.optional().meta({ description: 'Filter by reason.' }),
})

export function suppressionRoutes(root: FastifyInstance, context: RouteContext): void {
  const { sql, lists, vault, hashOf } = context
  const app = root.withTypeProvider<ZodTypeProvider>()

  function opened({ sealed, ...suppression }: SuppressionRow): Suppression {
    const { tenant_id, id } = suppression
    return { ...suppression, address: vault.open(sealed, suppressionPlace(tenant_id, id)) }
  }

  app.post(
    '/v1/messages/suppressions',
    route({
      area: 'messages',
      scope: 'messaging:write',
      tag: 'suppressions',
      operation_id: 'createSuppression',
      summary: 'Suppress an address',
      description:
        'Nothing is sent to the address any more, not even messages that were accepted before and have not been sent. If you have already suppressed it, the answer is 200 with the existing suppression. Suppressions with other reasons do not count.',
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
      const suppression_id = newId()
      const { row, is_new } = await acceptAtOnce(context, request, reply, {
        body: request.body,
        async step(asked) {
          const row = await suppress(sql, {
            ...asked,
            suppression_id,
            event_id: newId(),
            channel,
            address: hashOf(channel, address),
            sealed: vault.seal(address, suppressionPlace(asked.tenant_id, suppression_id)),
            metadata,
          })
          return row === 'known' ? row : { row, is_new: row.id === suppression_id }
        },
        async find(sent) {
          const remembered = await findProtectedSuppression(sql, sent)
          if (remembered === undefined) return undefined
          const { fingerprint, resource } = remembered
          const { sealed } = resource
          if (sealed === null)
            throw new AppError('suppression_not_found', { message: 'The suppression was deleted since.' })
          const is_new = resource.idempotency_key === sent.key
          return { fingerprint, resource: { row: { ...resource, sealed }, is_new } }
        },
      })
      if (!is_new) reply.code(200)
      return opened(row)
    },
  )

  app.get(
    '/v1/messages/suppressions',
    route({
      area: 'messages',
      scope: 'messaging:read',
      tag: 'suppressions',
      operation_id: 'listSuppressions',
      summary: 'List suppressions, newest first',
      querystring: filters,
      response: { 200: z.array(suppressionSchema) },
      errors: [],
    }),
    async (request, reply) => {
      const { address, ...query } = request.query
      const addresses =
        address === undefined ? {} : { addresses: CHANNELS.map((each) => hashOf(each, address)) }
      const rows = await lists(request, reply, (lists_sql) =>
        listSuppressions(lists_sql, request.credentials.tenant_id, { ...query, ...addresses }),
      )
      reply.headers(nextPage(request.url, query.limit, rows))
      return rows.map(opened)
    },
  )

  app.get(
    '/v1/messages/suppressions/:id',
    route({
      area: 'messages',
      scope: 'messaging:read',
      tag: 'suppressions',
      operation_id: 'getSuppression',
      summary: 'Retrieve a suppression',
      params: idParams,
      response: { 200: suppressionSchema },
      errors: ['suppression_not_found'],
    }),
    async ({ credentials: { tenant_id }, params: { id } }) =>
      opened(found(await findSuppression(sql, tenant_id, id), 'suppression_not_found')),
  )

  app.delete(
    '/v1/messages/suppressions/:id',
    route({
      area: 'messages',
      scope: 'messaging:write',
      tag: 'suppressions',
      operation_id: 'deleteSuppression',
      summary: 'Lift a suppression',
      description:
        'The address gets messages again, unless it has another suppression. It is erased when the event `suppression.deleted` is no longer kept. The provider refuses a number that answered STOP until it answers START. The answer is the suppression as it was.',
      params: idParams,
      response: { 200: suppressionSchema },
      errors: ['suppression_not_found'],
    }),
    async ({ credentials: { tenant_id }, params: { id } }) =>
      opened(found(await liftSuppression(sql, tenant_id, id, newId()), 'suppression_not_found')),
  )
}

// Routes of recipients.
import type { FastifyInstance } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { DESTINATIONS } from '#core/config/providers.ts'
import { countryCode } from '#core/countries.ts'
import { newId } from '#core/ids.ts'
import { currencyCode, TAKEN_TEXT, takenCurrency } from '#core/money.ts'
import { listRecipients } from '#domain/recipients/find.ts'
import { DESTINATION, fits, recipientSchema, recipientType } from '#domain/recipients/recipient.ts'
import {
  archiveRecord,
  createRecord,
  findProtectedRecord,
  findRecord,
  updateRecord,
} from '#domain/records.ts'
import { acceptAtOnce } from '../accept.ts'
import { changing, emailAddress, idempotencyKey, metadata, metadataValue, name } from '../body.ts'
import type { RouteContext } from '../context.ts'
import { found } from '../refusals.ts'
import { flag, idParams, nextPage, pageQuery, route } from '../route.ts'

const NAME = { description: 'The name of the recipient.', example: 'Grace Hopper' }
const EMAIL = { description: "The recipient's email address.", example: 'grace@example.com' }

const TOKENS = Object.entries(DESTINATIONS).map(([type, prefix]) => `${prefix}... with ${type}`)
// Never with what was sent: it may be the number of an account.
const NO_TOKEN = { error: `must be a token of the processor: ${TOKENS.join(', ')}` }

const createBody = z
  .strictObject({
    name: name.meta(NAME),
    email: emailAddress
      .nullish()
      .transform((email) => email ?? null)
      .meta(EMAIL),
    type: recipientType,
    currency: takenCurrency
      .meta({ description: `The currency of their payouts, in upper or lower case. ${TAKEN_TEXT}` })
      .transform((code) => code.toLowerCase())
      .meta({ example: 'usd' }),
    country: countryCode.transform((code) => code.toUpperCase()),
    destination: z.string().max(255, { abort: true }).regex(DESTINATION, NO_TOKEN).meta({
      description:
        "The processor's token for where the money goes: `ba_...` with `bank_account`, `card_...` with `card`, `acct_...` with `account`. Never an account or card number: that is refused and not stored.",
      example: 'acct_success',
    }),
    metadata,
    idempotency_key: idempotencyKey.meta({ example: 'recipient-17' }).optional(),
  })
  .refine(({ destination, type }) => fits(destination, type), { path: ['destination'], ...NO_TOKEN })
  .meta({ id: 'CreateRecipient', description: 'The recipient to create.' })
const patch = z
  .strictObject({
    name: name.meta(NAME),
    email: emailAddress.nullable().meta(EMAIL),
    metadata: metadataValue,
  })
  .partial()
  .meta({ id: 'UpdateRecipient', description: 'The fields to change.' })

export function recipientRoutes(root: FastifyInstance, context: RouteContext): void {
  const { sql, lists } = context
  const app = root.withTypeProvider<ZodTypeProvider>()

  app.post(
    '/v1/recipients',
    route({
      area: 'recipients',
      scope: 'recipients:write',
      operation_id: 'createRecipient',
      summary: 'Create a recipient',
      body: createBody,
      key: 'required',
      examples: {
        requests: {
          account: {
            summary: 'A connected account at the processor',
            value: {
              idempotency_key: 'recipient-17',
              name: 'Grace Hopper',
              email: 'grace@example.com',
              type: 'account',
              currency: 'usd',
              country: 'US',
              destination: 'acct_success',
              metadata: { order: 'A-17' },
            },
          },
          bank_account: {
            summary: 'A bank account, given by its token',
            value: {
              idempotency_key: 'recipient-18',
              name: 'Analytical Engines Ltd',
              type: 'bank_account',
              currency: 'gbp',
              country: 'GB',
              destination: 'ba_success',
            },
          },
        },
      },
      response: { 201: recipientSchema },
      errors: ['idempotency_key_reused'],
    }),
    async (request, reply) => {
      const { idempotency_key: _key, ...columns } = request.body
      return await acceptAtOnce(context, request, reply, {
        body: request.body,
        step: (asked) =>
          createRecord(sql, 'recipient', { ...asked, id: newId(), event_id: newId() }, columns),
        find: (sent) => findProtectedRecord(sql, 'recipient', sent),
      })
    },
  )

  app.get(
    '/v1/recipients',
    route({
      area: 'recipients',
      scope: 'recipients:read',
      operation_id: 'listRecipients',
      summary: 'List recipients, newest first',
      querystring: pageQuery.extend({
        email: z
          .string()
          .max(320)
          .optional()
          .meta({ description: 'Filter by email; must match exactly.', example: 'grace@example.com' }),
        type: recipientType.optional().meta({ description: 'Filter by type.' }),
        currency: currencyCode.optional().meta({ description: 'Filter by currency.', example: 'usd' }),
        archived: flag('List archived ones instead of the others.'),
      }),
      response: { 200: z.array(recipientSchema) },
      errors: [],
    }),
    async (request, reply) => {
      const recipients = await lists(request, reply, (lists_sql) =>
        listRecipients(lists_sql, request.credentials.tenant_id, request.query),
      )
      reply.headers(nextPage(request.url, request.query.limit, recipients))
      return recipients
    },
  )

  app.get(
    '/v1/recipients/:id',
    route({
      area: 'recipients',
      scope: 'recipients:read',
      operation_id: 'getRecipient',
      summary: 'Retrieve a recipient',
      description: 'Archived ones are returned too.',
      params: idParams,
      response: { 200: recipientSchema },
      errors: ['recipient_not_found'],
    }),
    async ({ credentials: { tenant_id }, params: { id } }) =>
      found(await findRecord(sql, 'recipient', { tenant_id, id }), 'recipient_not_found'),
  )

  app.patch(
    '/v1/recipients/:id',
    route({
      area: 'recipients',
      scope: 'recipients:write',
      operation_id: 'updateRecipient',
      summary: 'Update a recipient',
      description:
        'Fields that you leave out stay unchanged. Where the money goes cannot change: archive the recipient and create another.',
      params: idParams,
      body: changing(patch, createBody, 'archive the recipient'),
      examples: {
        requests: { email: { summary: 'Another email', value: { email: 'grace@example.org' } } },
        answer: { email: 'grace@example.org' },
      },
      response: { 200: recipientSchema },
      errors: ['recipient_not_found'],
    }),
    async ({ credentials: { tenant_id }, params: { id }, body }) =>
      found(
        await updateRecord(sql, 'recipient', { tenant_id, id }, newId(), body ?? {}),
        'recipient_not_found',
      ),
  )

  app.delete(
    '/v1/recipients/:id',
    route({
      area: 'recipients',
      scope: 'recipients:write',
      operation_id: 'archiveRecipient',
      summary: 'Archive a recipient',
      description:
        'No new payout can go to the recipient. It is kept for the books, and is listed only with `archived=true`. Archiving it again changes nothing.',
      params: idParams,
      response: { 200: recipientSchema },
      examples: { answer: { archived_at: '2026-11-20T10:15:30.123456Z' } },
      errors: ['recipient_not_found'],
    }),
    async ({ credentials: { tenant_id }, params: { id } }) =>
      found(await archiveRecord(sql, 'recipient', { tenant_id, id }, newId()), 'recipient_not_found'),
  )
}

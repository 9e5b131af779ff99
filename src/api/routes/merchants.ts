// Routes of merchants.
import type { FastifyInstance } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { countryCode } from '#core/countries.ts'
import { newId } from '#core/ids.ts'
import { merchantSchema } from '#domain/merchants/merchant.ts'
import {
  archiveRecord,
  createRecord,
  findProtectedRecord,
  findRecord,
  listRecords,
  updateRecord,
} from '#domain/records.ts'
import { acceptAtOnce } from '../accept.ts'
import { changing, emailAddress, httpUrl, idempotencyKey, metadata, metadataValue, name } from '../body.ts'
import type { RouteContext } from '../context.ts'
import { found } from '../refusals.ts'
import { flag, idParams, nextPage, pageQuery, route } from '../route.ts'

const LEGAL_NAME = { description: 'The legal name, as in contracts.', example: 'Analytical Engines Ltd' }
const DISPLAY_NAME = { description: 'The name that buyers know.', example: 'Analytical Engines' }
const SUPPORT_EMAIL = { description: 'The email address for buyers.', example: 'help@engines.example' }
const URL = { description: "The merchant's website; http or https.", example: 'https://engines.example' }
const country = countryCode.transform((code) => code.toUpperCase()).meta({ example: 'GB' })

const createBody = z
  .strictObject({
    legal_name: name.meta(LEGAL_NAME),
    display_name: name.meta(DISPLAY_NAME),
    country,
    support_email: emailAddress.meta(SUPPORT_EMAIL),
    url: httpUrl
      .nullish()
      .transform((url) => url ?? null)
      .meta(URL),
    metadata,
    idempotency_key: idempotencyKey.meta({ example: 'merchant-17' }).optional(),
  })
  .meta({ id: 'CreateMerchant', description: 'The merchant to create.' })
const patch = z
  .strictObject({
    legal_name: name.meta(LEGAL_NAME),
    display_name: name.meta(DISPLAY_NAME),
    country,
    support_email: emailAddress.meta(SUPPORT_EMAIL),
    url: httpUrl.nullable().meta(URL),
    metadata: metadataValue,
  })
  .partial()
  .meta({ id: 'UpdateMerchant', description: 'The fields to change.' })

export function merchantRoutes(root: FastifyInstance, context: RouteContext): void {
  const { sql, lists } = context
  const app = root.withTypeProvider<ZodTypeProvider>()

  app.post(
    '/v1/merchants',
    route({
      area: 'merchants',
      scope: 'merchants:write',
      operation_id: 'createMerchant',
      summary: 'Create a merchant',
      body: createBody,
      key: 'required',
      examples: {
        requests: {
          merchant: {
            summary: 'With all details',
            value: {
              idempotency_key: 'merchant-17',
              legal_name: 'Analytical Engines Ltd',
              display_name: 'Analytical Engines',
              country: 'GB',
              support_email: 'help@engines.example',
              url: 'https://engines.example',
              metadata: { plan: 'pro' },
            },
          },
        },
      },
      response: { 201: merchantSchema },
      errors: ['idempotency_key_reused'],
    }),
    async (request, reply) => {
      const { idempotency_key: _key, ...columns } = request.body
      return await acceptAtOnce(context, request, reply, {
        body: request.body,
        step: (asked) => createRecord(sql, 'merchant', { ...asked, id: newId(), event_id: newId() }, columns),
        find: (sent) => findProtectedRecord(sql, 'merchant', sent),
      })
    },
  )

  app.get(
    '/v1/merchants',
    route({
      area: 'merchants',
      scope: 'merchants:read',
      operation_id: 'listMerchants',
      summary: 'List merchants, newest first',
      querystring: pageQuery.extend({
        archived: flag('List archived ones instead of the others.'),
      }),
      response: { 200: z.array(merchantSchema) },
      errors: [],
    }),
    async (request, reply) => {
      const merchants = await lists(request, reply, (lists_sql) =>
        listRecords(lists_sql, 'merchant', request.credentials.tenant_id, request.query),
      )
      reply.headers(nextPage(request.url, request.query.limit, merchants))
      return merchants
    },
  )

  app.get(
    '/v1/merchants/:id',
    route({
      area: 'merchants',
      scope: 'merchants:read',
      operation_id: 'getMerchant',
      summary: 'Retrieve a merchant',
      description: 'Archived ones are returned too.',
      params: idParams,
      response: { 200: merchantSchema },
      errors: ['merchant_not_found'],
    }),
    async ({ credentials: { tenant_id }, params: { id } }) =>
      found(await findRecord(sql, 'merchant', { tenant_id, id }), 'merchant_not_found'),
  )

  app.patch(
    '/v1/merchants/:id',
    route({
      area: 'merchants',
      scope: 'merchants:write',
      operation_id: 'updateMerchant',
      summary: 'Update a merchant',
      description: 'Fields that you leave out stay unchanged.',
      params: idParams,
      body: changing(patch, createBody, 'archive the merchant'),
      examples: {
        requests: {
          site: { summary: 'Another site', value: { url: 'https://shop.engines.example' } },
        },
        answer: { url: 'https://shop.engines.example' },
      },
      response: { 200: merchantSchema },
      errors: ['merchant_not_found'],
    }),
    async ({ credentials: { tenant_id }, params: { id }, body }) =>
      found(
        await updateRecord(sql, 'merchant', { tenant_id, id }, newId(), body ?? {}),
        'merchant_not_found',
      ),
  )

  app.delete(
    '/v1/merchants/:id',
    route({
      area: 'merchants',
      scope: 'merchants:write',
      operation_id: 'archiveMerchant',
      summary: 'Archive a merchant',
      description:
        'No new payment can name the merchant. It is kept for the books, and is listed only with `archived=true`. Archiving it again changes nothing.',
      params: idParams,
      response: { 200: merchantSchema },
      examples: { answer: { archived_at: '2026-11-20T10:15:30.123456Z' } },
      errors: ['merchant_not_found'],
    }),
    async ({ credentials: { tenant_id }, params: { id } }) =>
      found(await archiveRecord(sql, 'merchant', { tenant_id, id }, newId()), 'merchant_not_found'),
  )
}

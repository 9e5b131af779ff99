// Routes of customers.
import type { FastifyInstance } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { batcher } from '#core/batch.ts'
import { newId } from '#core/ids.ts'
import {
  createCustomers,
  deleteCustomer,
  updateCustomer,
  type CreateCustomer,
} from '#domain/customers/change.ts'
import { customerSchema, type Customer } from '#domain/customers/customer.ts'
import { findCustomers, findProtectedCustomers, listCustomers } from '#domain/customers/find.ts'
import type { Protected, SentKey } from '#domain/idempotency.ts'
import { acceptAtOnce } from '../accept.ts'
import { idempotencyKey, metadata, metadataValue, text } from '../body.ts'
import type { RouteContext } from '../context.ts'
import { found } from '../refusals.ts'
import { flag, idParams, nextPage, pageQuery, route } from '../route.ts'

const NAME = { description: "The customer's name.", example: 'Ada Lovelace' }
const EMAIL = { description: 'Stored exactly as you send it; not validated.', example: 'ada@example.com' }
const PHONE = { description: 'Stored exactly as you send it; not validated.', example: '+442079460000' }
const EXTERNAL_ID = { description: 'Your own identifier for the customer.', example: 'user-17' }

const createBody = z
  .strictObject({
    name: text(256).meta(NAME),
    email: text(320).meta(EMAIL),
    phone: text(32).meta(PHONE),
    external_id: text(255).meta(EXTERNAL_ID),
    metadata,
    idempotency_key: idempotencyKey.optional(),
  })
  .meta({ id: 'CreateCustomer', description: 'The customer to create.' })
const patch = z
  .strictObject({
    name: z.string().max(256).nullable().meta(NAME),
    email: z.string().max(320).nullable().meta(EMAIL),
    phone: z.string().max(32).nullable().meta(PHONE),
    external_id: z.string().max(255).nullable().meta(EXTERNAL_ID),
    metadata: metadataValue,
  })
  .partial()
  .meta({ id: 'UpdateCustomer', description: 'The fields to change.' })

export function customerRoutes(root: FastifyInstance, context: RouteContext): void {
  const { sql, lists } = context
  const app = root.withTypeProvider<ZodTypeProvider>()
  const create = batcher<CreateCustomer, Customer | 'known'>(
    'create_customer',
    (requests) => createCustomers(sql, requests),
    {
      key: ({ tenant_id, idempotency_key }) => `${tenant_id} ${idempotency_key}`,
    },
  )
  const find = batcher<{ tenant_id: string; id: string }, Customer | undefined>('find_customer', (asked) =>
    findCustomers(sql, asked),
  )
  const replayed = batcher<SentKey, Protected<Customer> | undefined>('find_replayed_customer', (sent) =>
    findProtectedCustomers(sql, sent),
  )
  const deleting = new Map<string, ReturnType<typeof deleteCustomer>>()

  /**
   * A second deletion joins the one under way: its statement would only wait for the same row, on another connection.
   */
  function remove(tenant_id: string, id: string): ReturnType<typeof deleteCustomer> {
    const key = `${tenant_id} ${id}`
    const under_way = deleting.get(key)
    if (under_way !== undefined) return under_way
    const deleted = deleteCustomer(sql, tenant_id, id, newId()).finally(() => deleting.delete(key))
    deleting.set(key, deleted)
    return deleted
  }

  app.post(
    '/v1/customers',
    route({
      area: 'customers',
      scope: 'customer:write',
      operation_id: 'createCustomer',
      summary: 'Create a customer',
      body: createBody,
      key: 'required',
      examples: {
        requests: {
          named: {
            summary: 'With all details',
            value: {
              idempotency_key: 'customer-17',
              name: 'Ada Lovelace',
              email: 'ada@example.com',
              phone: '+442079460000',
              external_id: 'user-17',
              metadata: { plan: 'pro' },
            },
          },
          bare: { summary: 'With only its key', value: { idempotency_key: 'customer-18' } },
        },
      },
      response: { 201: customerSchema },
      errors: ['idempotency_key_reused'],
    }),
    async (request, reply) => {
      const { body } = request
      return await acceptAtOnce(context, request, reply, {
        body,
        step: (asked) => create({ ...body, ...asked, customer_id: newId(), event_id: newId() }),
        find: replayed,
      })
    },
  )

  app.get(
    '/v1/customers',
    route({
      area: 'customers',
      scope: null,
      operation_id: 'listCustomers',
      summary: 'List customers, newest first',
      querystring: pageQuery.extend({
        email: z
          .string()
          .max(320)
          .optional()
          .meta({ description: 'Filter by email; must match exactly.', example: 'ada@example.com' }),
        external_id: z
          .string()
          .max(255)
          .optional()
          .meta({ description: 'Filter by your own identifier.', example: 'user-17' }),
        deleted: flag('Also list deleted customers.'),
      }),
      response: { 200: z.array(customerSchema) },
      errors: [],
    }),
    async (request, reply) => {
      const { tenant_id } = request.credentials
      const customers = await lists(request, reply, (lists_sql) =>
        listCustomers(lists_sql, tenant_id, request.query),
      )
      reply.headers(nextPage(request.url, request.query.limit, customers))
      return customers
    },
  )

  app.get(
    '/v1/customers/:id',
    route({
      area: 'customers',
      scope: null,
      operation_id: 'getCustomer',
      summary: 'Retrieve a customer',
      description: 'Deleted customers are returned too, without personal data.',
      params: idParams,
      response: { 200: customerSchema },
      errors: ['customer_not_found'],
    }),
    async ({ credentials: { tenant_id }, params: { id } }) =>
      found(await find({ tenant_id, id }), 'customer_not_found'),
  )

  app.patch(
    '/v1/customers/:id',
    route({
      area: 'customers',
      scope: 'customer:write',
      operation_id: 'updateCustomer',
      summary: 'Update a customer',
      description: 'Fields that you leave out stay unchanged; null clears a field.',
      params: idParams,
      body: patch.nullish(),
      examples: {
        requests: {
          email: { summary: 'Another email, no phone', value: { email: 'ada@example.org', phone: null } },
        },
        answer: { email: 'ada@example.org', phone: null },
      },
      response: { 200: customerSchema },
      errors: ['customer_not_found'],
    }),
    async ({ credentials: { tenant_id }, params: { id }, body }) =>
      found(await updateCustomer(sql, tenant_id, id, newId(), body ?? {}), 'customer_not_found'),
  )

  app.delete(
    '/v1/customers/:id',
    route({
      area: 'customers',
      scope: 'customer:write',
      operation_id: 'deleteCustomer',
      summary: 'Delete a customer',
      description:
        'Erases name, email, phone and metadata, and keeps the id for the books. Personal data in earlier events is erased soon after.',
      params: idParams,
      response: { 200: customerSchema },
      examples: {
        answer: {
          name: null,
          email: null,
          phone: null,
          metadata: {},
          deleted_at: '2026-11-20T10:15:30.123456Z',
        },
      },
      errors: ['customer_not_found'],
    }),
    async (request) =>
      found(await remove(request.credentials.tenant_id, request.params.id), 'customer_not_found'),
  )
}

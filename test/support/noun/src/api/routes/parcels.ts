// Routes of parcels.
import type { FastifyInstance } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { batcher } from '#core/batch.ts'
import { newId } from '#core/ids.ts'
import { findParcels } from '#domain/parcels/find.ts'
import { parcelSchema, type Parcel } from '#domain/parcels/parcel.ts'
import { requestParcels, type ParcelRequest } from '#domain/parcels/request.ts'
import { listTimeline, timelineEntrySchema } from '#domain/timeline.ts'
import { shipParcel } from '#jobs/parcels.ts'
import { accept, finding, type Answers } from '../accept.ts'
import { idempotencyKey } from '../body.ts'
import type { RouteContext } from '../context.ts'
import { idParams, pageQuery, route } from '../route.ts'

const createBody = z
  .strictObject({
    address: z
      .string()
      .min(1)
      .max(1000)
      .meta({ description: 'Where it goes.', example: '12 St James Square' }),
    idempotency_key: idempotencyKey.meta({ example: 'order-17-parcel' }).optional(),
  })
  .meta({ id: 'CreateParcel', description: 'What is sent.' })

export function parcelRoutes(root: FastifyInstance, context: RouteContext): void {
  const { sql, lists } = context
  const app = root.withTypeProvider<ZodTypeProvider>()
  const request_parcel = batcher<ParcelRequest, 'accepted' | 'known' | undefined>(
    'request_parcel',
    async (requests) => {
      const became = await requestParcels(sql, requests)
      return requests.map(({ parcel_id }) => became.get(parcel_id))
    },
    { key: ({ tenant_id, idempotency_key }) => `${tenant_id} ${idempotency_key}` },
  )
  const answers: Answers<Parcel> = {
    find: finding('find_parcel', (asked) => findParcels(sql, asked), 'parcel_not_found'),
    pathOf: ({ id }) => `/v1/parcels/${id}`,
    idsOf: ({ id }) => ({ parcel_id: id }),
  }

  app.post(
    '/v1/parcels',
    route({
      area: 'parcels',
      scope: 'parcels:write',
      operation_id: 'createParcel',
      summary: 'Send a parcel',
      body: createBody,
      response: { 201: parcelSchema, 202: parcelSchema },
      waits: 'if_asked',
      key: 'required',
      errors: ['idempotency_key_reused', 'processor_error'],
    }),
    async (request, reply) => {
      const parcel_id = newId()
      const { body } = request
      return await accept(context, request, reply, {
        job: shipParcel,
        answers,
        id: parcel_id,
        body,
        step: (asked) => request_parcel({ ...asked, parcel_id, address: body.address }),
        reached: ({ status }) => status === 'shipped',
      })
    },
  )

  app.get(
    '/v1/parcels/:id',
    route({
      area: 'parcels',
      scope: 'parcels:read',
      operation_id: 'getParcel',
      summary: 'Retrieve a parcel',
      params: idParams,
      response: { 200: parcelSchema },
      errors: ['parcel_not_found'],
    }),
    async ({ credentials: { tenant_id }, params: { id } }) =>
      (await answers.find({ tenant_id, id, job_id: null })).resource,
  )

  app.get(
    '/v1/parcels/:id/timeline',
    route({
      area: 'parcels',
      scope: 'parcels:read',
      operation_id: 'getParcelTimeline',
      summary: 'Explain a parcel',
      params: idParams,
      querystring: pageQuery,
      response: { 200: z.array(timelineEntrySchema) },
      errors: ['parcel_not_found'],
    }),
    async (request, reply) => {
      const { tenant_id } = request.credentials
      const { id } = request.params
      await answers.find({ tenant_id, id, job_id: null })
      return await lists(request, reply, (lists_sql) =>
        listTimeline(lists_sql, { tenant_id, subject: 'parcel', subject_id: id }, request.query),
      )
    },
  )
}

// The route that sends a parcel.
import { z } from 'zod'
import { createBatcher } from '#core/batch.ts'
import { newId } from '#core/ids.ts'
import { parcelSchema, type Parcel } from '#domain/parcels/parcel.ts'
import { requestParcels, type ParcelRequest } from '#domain/parcels/request.ts'
import { shipParcel } from '#jobs/parcels.ts'
import { accept, type ResourceReader } from '../../accept.ts'
import { idempotencyKey } from '../../body.ts'
import type { RouteApp, RouteContext } from '../../context.ts'
import { route } from '../../route.ts'

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

export function createParcelRoute(
  app: RouteApp,
  context: RouteContext,
  reader: ResourceReader<Parcel>,
): void {
  const { sql } = context
  const request_parcel = createBatcher<ParcelRequest, 'accepted' | 'key_used' | undefined>(
    'request_parcel',
    async (requests) => {
      const result = await requestParcels(sql, requests)
      return requests.map(({ parcel_id }) => result.get(parcel_id))
    },
    { key: ({ tenant_id, idempotency_key }) => `${tenant_id} ${idempotency_key}` },
  )

  app.post(
    '/v1/parcels',
    route({
      area: 'parcels',
      scope: 'parcels:write',
      operation_id: 'createParcel',
      summary: 'Send a parcel',
      body: createBody,
      response: { 201: parcelSchema, 202: parcelSchema },
      waits: 'if_requested',
      key: 'required',
      errors: ['idempotency_key_reused', 'processor_error', 'parcel_refused'],
    }),
    async (request, reply) => {
      const parcel_id = newId()
      const { body } = request
      return await accept(context, request, reply, {
        job: shipParcel,
        reader,
        id: parcel_id,
        body,
        step: (requested) => request_parcel({ ...requested, parcel_id, address: body.address }),
        isFulfilled: ({ status }) => status === 'shipped',
      })
    },
  )
}

// Performs the job of a parcel: ships it with the carrier.
import { findTracking } from '#domain/parcels/find.ts'
import { shipParcel } from '#jobs/parcels.ts'
import type { ShippedParcel } from '#providers/carrier.ts'
import type { WorkerContext } from '../../context.ts'
import { done, failed, unknown, type Decision } from '../../decision.ts'
import { IRREVERSIBLE } from '../absence.ts'
import { createAtProvider, resendUnderNewKey } from '../create.ts'
import { calling, type JobOf } from '../handler.ts'
import { settlingParcel } from './effects.ts'

type ShipJob = JobOf<typeof shipParcel>

const UNREACHABLE = { code: 'processor_error', message: 'The carrier could not be reached.' } as const

export const parcelHandlers = {
  [shipParcel.name]: calling(shipParcel, ship),
}

/** Ships a parcel. */
async function ship(context: WorkerContext, job: ShipJob): Promise<Decision> {
  const { sql, carrier } = context
  const { request } = job.call
  const ids = { tenant_id: job.tenant_id, parcel_id: job.payload.parcel_id }
  return await createAtProvider<ShippedParcel>(context, job, {
    row: null,
    provider: carrier,
    absence: IRREVERSIBLE,
    send: (key) => carrier.ship(request, key),
    isUndecided: () => false,
    findReference: () => findTracking(sql, ids),
    find: (reference) => carrier.find(reference),
    search: () => carrier.search(ids.parcel_id),
    matchesRequest: ({ parcel_id, address }) =>
      parcel_id === request.parcel_id && address === request.address,
    onMismatch: async ({ reference }) => unknown(`${reference} is another parcel`),
    created: ({ reference }) =>
      done({
        reference,
        effects: settlingParcel({ update: { ...ids, status: 'shipped', tracking: reference } }),
      }),
    adopt: () => Promise.resolve(undefined),
    refused: (failure) =>
      failed(failure, { effects: settlingParcel({ update: { ...ids, status: 'refused', tracking: null } }) }),
    absent: resendUnderNewKey,
    unreachable: UNREACHABLE,
    unsent: null,
  })
}

// Performs the jobs of parcels: one call to the carrier.
import { shipParcel } from '#jobs/parcels.ts'
import type { WorkerContext } from '../../context.ts'
import { done, failed, retryUndone, unknown, type Decision } from '../../decision.ts'
import { calling, type JobOf } from '../handler.ts'
import { settlingParcel } from './effects.ts'

export const parcelHandlers = {
  [shipParcel.name]: calling(shipParcel, ship),
}

async function ship({ carrier }: WorkerContext, job: JobOf<typeof shipParcel>): Promise<Decision> {
  const { tenant_id, payload, call } = job
  if (call.lookup_only) return unknown('the carrier cannot be queried for the parcel')
  const ids = { tenant_id, parcel_id: payload.parcel_id }
  const sent = await carrier.ship(call.request, call.key)
  if (sent.kind === 'done') {
    const effects = settlingParcel({ update: { ...ids, status: 'shipped', tracking: sent.value } })
    return done({ reference: sent.value, effects })
  }
  if (sent.kind === 'declined') {
    const effects = settlingParcel({ update: { ...ids, status: 'refused', tracking: null } })
    return failed(sent.failure, { effects })
  }
  return retryUndone(sent)
}

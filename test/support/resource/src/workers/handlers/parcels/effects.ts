// The step that settles a parcel, and the comparison with the carrier's record.
import { settleParcels, type ParcelSettlement } from '#domain/parcels/settle.ts'
import { createSettlingStep, type SettlementDetails } from '../../settle.ts'
import { toSide, type ComparedResource } from '../notifications/drifts.ts'

export const settlingParcel = createSettlingStep<SettlementDetails<ParcelSettlement>>(
  'settle_parcel',
  settleParcels,
  ({ update }) => update.parcel_id,
)

export const comparedParcel: ComparedResource = {
  resource: 'parcel',
  query: async ({ carrier }, reference) =>
    toSide(await carrier.find(reference), (parcel) => ({ status: 'shipped', tracking: parcel.reference })),
}

// The effects step that settles a parcel, and the comparison with the carrier's record.
import { settleParcels, type ParcelSettlement } from '#domain/parcels/settle.ts'
import { settling, type SettlementDetails } from '../../settle.ts'
import { toSide, type ComparedResource } from '../notifications/drifts.ts'

export const settlingParcel = settling<SettlementDetails<ParcelSettlement>>(
  'settle_parcel',
  settleParcels,
  ({ update }) => update.parcel_id,
)

export const comparedParcel: ComparedResource = {
  resource: 'parcel',
  ask: async ({ carrier }, reference) => toSide(await carrier.find(reference), (parcel) => parcel),
}

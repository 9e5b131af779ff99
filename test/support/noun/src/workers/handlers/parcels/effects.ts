// The step that settles a parcel, and how the carrier's record of it is compared.
import { settleParcels, type ParcelSettlement } from '#domain/parcels/settle.ts'
import { settling, type Told } from '../../settle.ts'
import { sided, type ComparedNoun } from '../notifications/drifts.ts'

export const settlingParcel = settling<Told<ParcelSettlement>>(
  'settle_parcel',
  settleParcels,
  ({ told }) => told.parcel_id,
)

export const comparedParcel: ComparedNoun = {
  noun: 'parcel',
  ask: async ({ carrier }, reference) => sided(await carrier.find(reference), (parcel) => parcel),
}

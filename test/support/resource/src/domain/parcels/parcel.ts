// The parcel in rows, responses and events.
import { z } from 'zod'
import { timestamp } from '#core/time.ts'
import { idFields, keyField } from '../fields.ts'

/** A parcel in a response. */
export const parcelSchema = z
  .object({
    ...idFields('parcel', '0198f6f1-9a3c-7000-8000-123456789abc'),
    idempotency_key: keyField('order-17-parcel'),
    status: z
      .enum(['pending', 'shipped', 'refused'])
      .meta({ id: 'ParcelStatus', description: 'How it stands.', example: 'shipped' }),
    address: z.string().meta({ description: 'Where it goes.', example: '12 St James Square, London' }),
    tracking: z.string().nullable().meta({ description: 'Its name at the carrier.', example: 'T-17' }),
    created_at: timestamp.meta({ description: 'When it was created.' }),
    updated_at: timestamp.meta({ description: 'When it last changed.' }),
  })
  .meta({ id: 'Parcel', description: 'Something that is sent.' })

export type Parcel = z.output<typeof parcelSchema>

/** The event types of parcels, by the word after `parcel.`. */
export const PARCEL_EVENTS = {
  shipped: 'The carrier has taken it.',
} as const

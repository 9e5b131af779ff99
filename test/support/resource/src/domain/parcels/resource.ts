// The registration of parcels as a resource.
import { z } from 'zod'
import type { Resource } from '../resource.ts'
import { PARCEL_EVENTS, parcelSchema } from './parcel.ts'

/** The fields that are compared with the carrier's record. */
const parcelComparison = z.object({
  status: z.string(),
  tracking: z.string().nullable().meta({ description: 'Its name at the carrier.', example: 'T-17' }),
})

export const parcelResource = {
  table: 'parcels',
  view: parcelSchema,
  events: PARCEL_EVENTS,
  under_way: { open: (sql) => sql`p.status = 'pending'` },
  at_provider: {
    scope: 'parcels:read',
    provider: 'carrier',
    reference: 'tracking',
    side: parcelComparison,
    isRedundant: (sql) => sql`reported.status = r.status`,
    agreeing_statuses: { shipped: ['shipped'] },
  },
} as const satisfies Resource

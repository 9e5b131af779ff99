// Jobs of parcels.
import { z } from 'zod'
import { defineJob } from './job.ts'

export const shipParcel = defineJob({
  name: 'parcel.ship',
  queue: 'payments',
  payload: z.object({ parcel_id: z.uuid() }),
  call: {
    provider: 'carrier',
    operation: 'ship',
    held_with: 'creations',
    status: 'pending',
    makes: { id: /^T-/, example: 'T-17' },
    request: z.strictObject({ parcel_id: z.uuid(), address: z.string() }),
    on_ambiguous: 'resend_same_key',
    deadline_ms: 15_000,
  },
})

export const parcelJobs = { shipParcel }

// The work that parcels ask for.
import { z } from 'zod'
import { defineJob } from './job.ts'

export const shipParcel = defineJob({
  name: 'parcel.ship',
  queue: 'payments',
  payload: z.object({ parcel_id: z.uuid() }),
  call: {
    operation: 'ship',
    request: z.object({ address: z.string() }),
  },
})

export const parcelJobs = { shipParcel }

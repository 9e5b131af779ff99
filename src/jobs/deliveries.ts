// The jobs of deliveries: each is one attempt to send an event to an endpoint. They belong to the endpoint.
import { z } from 'zod'
import { defineJob } from './job.ts'

/** `created_at`: the creation time of the delivery, which selects its partition. */
const payload = z.object({ delivery_id: z.uuid(), created_at: z.string() })
const QUEUE = { queue: 'deliveries', call: null } as const

/** An attempt of the schedule, or of a recovery. */
export const sendDelivery = defineJob({
  name: 'webhook_endpoint.deliver',
  payload: payload.extend({ recovery_id: z.uuid().nullable() }),
  ...QUEUE,
})

/** A manual attempt; `key_id`: the API key of the request. */
export const replayDelivery = defineJob({
  name: 'webhook_endpoint.replay',
  payload: payload.extend({ key_id: z.uuid() }),
  ...QUEUE,
})

/** The only attempt of a test. */
export const testDelivery = defineJob({ name: 'webhook_endpoint.test', payload, ...QUEUE })

export const deliveryJobs = { sendDelivery, replayDelivery, testDelivery }

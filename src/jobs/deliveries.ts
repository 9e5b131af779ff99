// The jobs of deliveries. Each is one attempt; when the next one is due stands in the line of the endpoint.
import { z } from 'zod'
import { defineJob } from './job.ts'

/** `created_at` is that of the delivery: it leads to the delivery's partition. The job's subject is the endpoint. */
const delivery = z.object({ delivery_id: z.uuid(), created_at: z.string() })

/** A scheduled attempt. `recovery_id`: the recovery that asked for it, which also sends while the endpoint is disabled. */
export const sendDelivery = defineJob({
  name: 'delivery.send',
  queue: 'deliveries',
  payload: delivery.extend({ recovery_id: z.uuid().nullable() }),
  call: null,
})

/** An attempt by hand, also while the endpoint is disabled. `key_id`: the API key that asked for it. */
export const replayDelivery = defineJob({
  name: 'delivery.replay',
  queue: 'deliveries',
  payload: delivery.extend({ key_id: z.uuid() }),
  call: null,
})

/** The only attempt of a test. */
export const testDelivery = defineJob({
  name: 'delivery.test',
  queue: 'deliveries',
  payload: delivery,
  call: null,
})

export const deliveryJobs = { sendDelivery, replayDelivery, testDelivery }

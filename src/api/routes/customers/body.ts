// The bodies of requests that create and update customers.
import { z } from 'zod'
import { idempotencyKey, metadata, metadataValue, text } from '../../body.ts'

const NAME = { description: "The customer's name.", example: 'Ada Lovelace' }
const EMAIL = { description: 'Stored exactly as you send it; not validated.', example: 'ada@example.com' }
const PHONE = { description: 'Stored exactly as you send it; not validated.', example: '+442079460000' }
const EXTERNAL_ID = { description: 'Your own identifier for the customer.', example: 'user-17' }

export const createCustomerBody = z
  .strictObject({
    name: text(256).meta(NAME),
    email: text(320).meta(EMAIL),
    phone: text(32).meta(PHONE),
    external_id: text(255).meta(EXTERNAL_ID),
    metadata,
    idempotency_key: idempotencyKey.optional(),
  })
  .meta({ id: 'CreateCustomer', description: 'The customer to create.' })
export const updateCustomerBody = z
  .strictObject({
    name: z.string().max(256).nullable().meta(NAME),
    email: z.string().max(320).nullable().meta(EMAIL),
    phone: z.string().max(32).nullable().meta(PHONE),
    external_id: z.string().max(255).nullable().meta(EXTERNAL_ID),
    metadata: metadataValue,
  })
  .partial()
  .meta({ id: 'UpdateCustomer', description: 'The fields to change.' })

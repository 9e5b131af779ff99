// The customer: its schema in rows, answers and events.
import { z } from 'zod'
import { timestamp } from '#core/time.ts'
import { idFields, keyField, trailingFields } from '../fields.ts'
import { latestVerificationStatus } from '../verifications/latest.ts'

/** A customer in answers. */
export const customerSchema = z
  .object({
    ...idFields('customer', '0198f6f0-0c05-7000-8000-123456789abc'),
    idempotency_key: keyField('customer-17'),
    name: z.string().nullable().meta({ description: "The customer's name.", example: 'Ada Lovelace' }),
    email: z
      .string()
      .nullable()
      .meta({ description: 'Stored exactly as you sent it.', example: 'ada@example.com' }),
    phone: z
      .string()
      .nullable()
      .meta({ description: 'Stored exactly as you sent it.', example: '+442079460000' }),
    external_id: z
      .string()
      .nullable()
      .meta({ description: 'Your own identifier for the customer.', example: 'user-17' }),
    kyc_status: latestVerificationStatus,
    ...trailingFields('customers'),
    deleted_at: timestamp
      .nullable()
      .meta({ description: 'When it was deleted; null otherwise.', example: null }),
  })
  .meta({ id: 'Customer', description: 'A customer: somebody who pays.' })

export type Customer = z.output<typeof customerSchema>

/** A customer in events. Personal data is erased from the events when the customer is deleted. */
export const customerEventSchema = customerSchema
  .partial({ name: true, email: true, phone: true, metadata: true })
  .meta({
    id: 'CustomerEventData',
    description: 'The customer as it was then; without personal data once the customer is deleted.',
  })

/** The events of customers: the name after `customer.`, and the description. */
export const CUSTOMER_EVENTS = {
  created: 'A customer was created.',
  updated: 'A customer was updated.',
  deleted: 'A customer was deleted; personal data is erased here and in earlier events.',
} as const

// The merchant: its schema in rows, answers and events.
import { z } from 'zod'
import { countryCode } from '#core/countries.ts'
import { metadataJson } from '#core/json.ts'
import { timestamp } from '#core/time.ts'
import { latestVerificationStatus } from '../verifications/latest.ts'

/** A merchant in answers and events. */
export const merchantSchema = z
  .object({
    id: z
      .uuid()
      .meta({ description: 'The id of the merchant.', example: '0198f6f3-3c11-7000-8000-123456789abc' }),
    tenant_id: z
      .uuid()
      .meta({ description: 'Whose it is.', example: '0198f6ef-9a00-7000-8000-00000000ac3e' }),
    idempotency_key: z
      .string()
      .meta({ description: 'The key that it was created with.', example: 'merchant-17' }),
    legal_name: z
      .string()
      .meta({ description: 'What they are called in contracts.', example: 'Analytical Engines Ltd' }),
    display_name: z
      .string()
      .meta({ description: 'What buyers know them by.', example: 'Analytical Engines' }),
    country: countryCode.meta({
      description: 'ISO 3166-1 alpha-2 country code, in upper case.',
      example: 'GB',
    }),
    support_email: z
      .string()
      .meta({ description: 'Where buyers write to.', example: 'help@engines.example' }),
    url: z.string().nullable().meta({ description: 'Their site.', example: 'https://engines.example' }),
    kyc_status: latestVerificationStatus,
    archived_at: timestamp
      .nullable()
      .meta({ description: 'When it was archived; null while it is not.', example: null }),
    metadata: metadataJson,
    created_at: timestamp.meta({ description: 'Unique among your merchants: the cursor of lists.' }),
    updated_at: timestamp.meta({ description: 'When it last changed.' }),
  })
  .meta({ id: 'Merchant', description: 'Somebody on whose behalf you take payments.' })

/** The events of merchants, by the word after `merchant.`, each with its meaning. */
export const MERCHANT_EVENTS = {
  created: 'A merchant was created.',
  updated: 'A merchant was changed.',
  archived: 'A merchant was archived: no new payment can name it.',
} as const

// The bodies of requests that create and update merchants.
import { z } from 'zod'
import { countryCode } from '#core/countries.ts'
import { emailAddress, httpUrl, idempotencyKey, metadata, metadataValue, name } from '../../body.ts'

const LEGAL_NAME = { description: 'The legal name, as in contracts.', example: 'Analytical Engines Ltd' }
const DISPLAY_NAME = { description: 'The name that buyers know.', example: 'Analytical Engines' }
const SUPPORT_EMAIL = { description: 'The email address for buyers.', example: 'help@engines.example' }
const URL = { description: "The merchant's website; http or https.", example: 'https://engines.example' }
const country = countryCode.transform((code) => code.toUpperCase()).meta({ example: 'GB' })

export const createMerchantBody = z
  .strictObject({
    legal_name: name.meta(LEGAL_NAME),
    display_name: name.meta(DISPLAY_NAME),
    country,
    support_email: emailAddress.meta(SUPPORT_EMAIL),
    url: httpUrl
      .nullish()
      .transform((url) => url ?? null)
      .meta(URL),
    metadata,
    idempotency_key: idempotencyKey.meta({ example: 'merchant-17' }).optional(),
  })
  .meta({ id: 'CreateMerchant', description: 'The merchant to create.' })
export const updateMerchantBody = z
  .strictObject({
    legal_name: name.meta(LEGAL_NAME),
    display_name: name.meta(DISPLAY_NAME),
    country,
    support_email: emailAddress.meta(SUPPORT_EMAIL),
    url: httpUrl.nullable().meta(URL),
    metadata: metadataValue,
  })
  .partial()
  .meta({ id: 'UpdateMerchant', description: 'The fields to change.' })

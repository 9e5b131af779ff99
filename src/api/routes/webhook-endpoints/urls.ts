// Refuses URLs to which nothing may be sent.
import type { Config } from '#core/config.ts'
import { AppError } from '#core/errors.ts'
import { createLookup } from '#core/lookup.ts'
import { networksOf } from '#core/public-addresses.ts'
import { problemOfTenantUrl } from '#core/tenant-urls.ts'

/** Throws `invalid_request` for a URL whose form is not taken, or that leads to an address that is not allowed. */
export function createUrlCheck({ NODE_ENV, WEBHOOKS_ALLOW_CIDRS: allowed_networks }: Config) {
  const rules = {
    production: NODE_ENV === 'production',
    allowed: networksOf(allowed_networks),
    // Who allows private addresses may have names for them that no name server knows.
    lookup: createLookup({ hosts: allowed_networks.length > 0 }),
  }
  return async (url: string): Promise<void> => {
    const problem = await problemOfTenantUrl(url, rules)
    if (problem !== null)
      throw new AppError('invalid_request', {
        param: 'url',
        message: `url ${problem}.`,
        details: [{ param: 'url', message: problem }],
      })
  }
}

// Refuses URLs to which nothing may be sent.
import type { Config } from '#core/config.ts'
import { AppError } from '#core/errors.ts'
import { problemOfTenantUrl, tenantUrlRules } from '#core/tenant-urls.ts'

/**
 * Throws `invalid_request` if a URL is not supported, or if its host resolves to an address to which nothing may be
 * sent.
 */
export type UrlCheck = (url: string) => Promise<void>

export function createUrlCheck(config: Config): UrlCheck {
  const rules = tenantUrlRules(config)
  return async (url) => {
    const problem = await problemOfTenantUrl(url, rules)
    if (problem !== null)
      throw new AppError('invalid_request', {
        param: 'url',
        message: `url ${problem}.`,
        details: [{ param: 'url', message: problem }],
      })
  }
}

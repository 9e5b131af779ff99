// Refuses requests that other sites make in the name of whoever is signed in.
import { isIP } from 'node:net'
import type { FastifyRequest } from 'fastify'
import { checkHost } from '#api/host.ts'
import type { Config } from '#core/config.ts'
import { AppError } from '#core/errors.ts'

/** Whether a request changes something, by its method. */
export function isMutating({ method }: { method: string }): boolean {
  return method !== 'GET' && method !== 'HEAD' && method !== 'OPTIONS'
}

/**
 * Throws `forbidden` for a request that is for another host, as after DNS was made to lie, and for one that changes
 * something and comes from another site, by what the browser says of it (`Origin`, `Sec-Fetch-Site`).
 */
export function createGuard(config: Config): (request: FastifyRequest) => void {
  const { DASHBOARD_URL, HOST } = config
  const own_url = DASHBOARD_URL === undefined ? undefined : new URL(DASHBOARD_URL)

  function isOwnHost(host: string): boolean {
    if (own_url !== undefined) return host === own_url.host
    const name = URL.parse(`http://${host}`)?.hostname ?? ''
    // A name can be made to lead here by whoever owns it, a number cannot.
    return name === 'localhost' || name === HOST || isIP(name.replaceAll(/[[\]]/g, '')) !== 0
  }
  // The whole of it: what was read over another scheme is another site.
  const isOwnOrigin = (request: FastifyRequest) => request.headers.origin === originOf(config, request)

  return (request) => {
    const { headers } = request
    const { host = '', origin, 'sec-fetch-site': site } = headers
    checkHost(request)
    if (!isOwnHost(host))
      throw new AppError('forbidden', {
        message: 'This host is not the dashboard. If it should be, set DASHBOARD_URL to its address.',
      })
    if (!isMutating(request)) return
    const is_cross_origin = origin !== undefined && !isOwnOrigin(request)
    if (is_cross_origin || (site !== undefined && site !== 'same-origin'))
      throw new AppError('forbidden', { message: 'The request comes from another site.' })
  }
}

/** Where the pages are, as the `Host` of this request has it, which the guard has looked at: no other header says it. */
export function originOf({ DASHBOARD_URL }: Config, { protocol, headers }: FastifyRequest): string {
  if (DASHBOARD_URL !== undefined) return new URL(DASHBOARD_URL).origin
  return `${protocol === 'https' ? 'https' : 'http'}://${headers.host ?? 'localhost'}`
}

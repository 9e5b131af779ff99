// Refuses cross-site requests, and requests to other hosts.
import { isIP } from 'node:net'
import type { FastifyRequest } from 'fastify'
import { checkHost } from '#api/host.ts'
import type { Config } from '#core/config.ts'
import { AppError } from '#core/errors.ts'

/** Whether the method of a request may change something: any but GET, HEAD and OPTIONS. */
export function isMutating({ method }: { method: string }): boolean {
  return method !== 'GET' && method !== 'HEAD' && method !== 'OPTIONS'
}

/**
 * Creates a check that throws `forbidden` for requests to another host (DNS rebinding), and for mutating requests from
 * another site according to `Origin` and `Sec-Fetch-Site` (CSRF).
 */
export function createGuard(config: Config): (request: FastifyRequest) => void {
  const { DASHBOARD_URL, HOST } = config
  const own_url = DASHBOARD_URL === undefined ? undefined : new URL(DASHBOARD_URL)

  function isOwnHost(host: string): boolean {
    if (own_url !== undefined) return host === own_url.host
    const name = URL.parse(`http://${host}`)?.hostname ?? ''
    // DNS rebinding needs a host name, so every IP address is accepted.
    return name === 'localhost' || name === HOST || isIP(name.replaceAll(/[[\]]/g, '')) !== 0
  }
  // Compares the scheme too: a page over another scheme has another origin.
  const isOwnOrigin = (request: FastifyRequest) => request.headers.origin === originOf(config, request)

  return (request) => {
    const { headers } = request
    const { host = '', origin, 'sec-fetch-site': site } = headers
    checkHost(request)
    if (!isOwnHost(host))
      throw new AppError('forbidden', {
        message: 'The dashboard does not serve this host. To serve it, set DASHBOARD_URL to its URL.',
      })
    if (!isMutating(request)) return
    const is_cross_origin = origin !== undefined && !isOwnOrigin(request)
    if (is_cross_origin || (site !== undefined && site !== 'same-origin'))
      throw new AppError('forbidden', { message: 'The request comes from another site.' })
  }
}

/** The origin of the pages: that of DASHBOARD_URL, otherwise from the `Host` header, which the guard has checked. */
export function originOf({ DASHBOARD_URL }: Config, { protocol, headers }: FastifyRequest): string {
  if (DASHBOARD_URL !== undefined) return new URL(DASHBOARD_URL).origin
  return `${protocol === 'https' ? 'https' : 'http'}://${headers.host ?? 'localhost'}`
}

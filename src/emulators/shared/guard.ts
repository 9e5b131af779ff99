// Protects pages and controls against requests from other web sites.
import type { IncomingMessage } from 'node:http'
import { isIP } from 'node:net'
import { header } from './http.ts'

/**
 * The reason why a request for a page or a control is refused, or null. Another site can make a browser post here and,
 * with a host name that resolves to this machine, read the answers. So the host must be an IP address or localhost, and
 * a post must come from the emulator's own page.
 */
export function accessProblemOf(request: IncomingMessage, host: string): string | null {
  const authority = header(request, 'host') ?? ''
  const name = authority
    .replace(/:\d+$/, '')
    .replaceAll(/^\[|\]$/g, '')
    .toLowerCase()
  if (name !== 'localhost' && name !== host && isIP(name) === 0)
    return `The controls of this emulator are not available under the host name "${name}".`
  if (request.method === 'GET') return null
  const [origin, site] = [header(request, 'origin'), header(request, 'sec-fetch-site')]
  const elsewhere = site === 'cross-site' || site === 'same-site'
  if (elsewhere || (origin !== null && origin !== `http://${authority}`))
    return 'The controls of this emulator refuse requests of other sites.'
  return null
}

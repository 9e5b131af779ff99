// Who may use the pages and controls: programs, and browsers that came here by this server's own address.
import type { IncomingMessage } from 'node:http'
import { isIP } from 'node:net'
import { header } from './http.ts'

/**
 * Why a request for a page or a control is refused, or null. Another site can make a browser post here and, with a host name that
 * points here, also read the answers. So the host must be an address or localhost, and a post must come from our own page.
 */
export function accessProblemOf(request: IncomingMessage, host: string): string | null {
  const authority = header(request, 'host') ?? ''
  const name = authority
    .replace(/:\d+$/, '')
    .replaceAll(/^\[|\]$/g, '')
    .toLowerCase()
  if (name !== 'localhost' && name !== host && isIP(name) === 0)
    return `The controls of this emulator are not served as "${name}".`
  if (request.method === 'GET') return null
  const [origin, site] = [header(request, 'origin'), header(request, 'sec-fetch-site')]
  const elsewhere = site === 'cross-site' || site === 'same-site'
  if (elsewhere || (origin !== null && origin !== `http://${authority}`))
    return 'The controls of this emulator take no requests of other sites.'
  return null
}

// Checks the URLs of tenants: their form, and that they lead to the public internet.
import { isIP, type BlockList } from 'node:net'
import { domainToUnicode } from 'node:url'
import type { Config } from './config.ts'
import { hasInvisible } from './invisible.ts'
import { createLookup, lookupWithin, type Lookup } from './lookup.ts'
import { isReachable, networksOf } from './public-addresses.ts'

export const MAX_TENANT_URL_LENGTH = 2048
const LOOKUP_TIMEOUT_MS = 2_000
const PRODUCTION_PORTS = ['', '443', '8443']
// The message shows neither the addresses of a host name nor whether the host name resolves: a tenant must learn
// nothing about our network.
const NOT_PUBLIC = 'must lead to a public address'

/** `production`: only https, on port 443 or 8443. */
export type UrlFormRules = { production: boolean }

/** The rules for the URLs of tenants. `allowed`: networks that are reachable although they are not public. */
export type TenantUrlRules = UrlFormRules & { allowed: BlockList; lookup: Lookup }

/** The rules of a deployment. */
export function tenantUrlRules({
  NODE_ENV,
  WEBHOOKS_ALLOW_CIDRS: networks,
}: Pick<Config, 'NODE_ENV' | 'WEBHOOKS_ALLOW_CIDRS'>): TenantUrlRules {
  return {
    production: NODE_ENV === 'production',
    allowed: networksOf(networks),
    // A deployment that allows private addresses may have names that only the system resolver finds.
    lookup: createLookup({ hosts: networks.length > 0 }),
  }
}

/**
 * The reason why a text is not an unambiguous web URL, or null. Blanks, control and invisible characters, users and
 * passwords are refused.
 */
export function problemOfUrl(text: string): string | null {
  if (text.length > MAX_TENANT_URL_LENGTH) return `must have at most ${MAX_TENANT_URL_LENGTH} characters`
  // URL removes blanks, and reads `http:host` as `http://host`: the stored text would show another URL.
  if (!/^https?:\/\/[^/?#]/i.test(text) || !URL.canParse(text)) return 'must be an http or https URL'
  if (hasInvisible(text) || text.includes('\\'))
    return 'must not contain blanks, control or invisible characters, or backslashes'
  if (/^https?:\/\/[^/?#]*@/i.test(text)) return 'must not have a user or a password'
  const { href, hostname } = new URL(text)
  if (hostname.split('.').some(isBrokenLabel)) return 'must have a host name that can be decoded'
  return href.length > MAX_TENANT_URL_LENGTH
    ? `must have at most ${MAX_TENANT_URL_LENGTH} characters when it is encoded`
    : null
}

/** Whether a label has the punycode prefix but cannot be decoded: such a name cannot be registered. */
function isBrokenLabel(label: string): boolean {
  return label.startsWith('xn--') && domainToUnicode(label) === label
}

/**
 * The reason why nothing may be sent to a URL, such as `must be https`, or null. Checks only the form of the URL.
 * `production`: https is required, on port 443 or 8443.
 */
export function problemOfUrlForm(text: string, { production }: UrlFormRules): string | null {
  const problem = problemOfUrl(text)
  if (problem !== null) return problem
  const url = new URL(text)
  if (text.includes('#')) return 'must not have a fragment (#...): it is never sent'
  if (url.port === '0') return 'must not have port 0'
  if (!production) return null
  if (url.protocol !== 'https:') return 'must be https'
  return PRODUCTION_PORTS.includes(url.port) ? null : 'must have port 443 or 8443'
}

/**
 * The reason why nothing may be sent to a URL, or null. Checks the form of the URL, and that every address of its
 * host is public or in `allowed`. A name that does not resolve within 2 s is accepted: its addresses are checked
 * again when a connection is opened. Never rejects.
 */
export async function problemOfTenantUrl(
  text: string,
  { production, allowed, lookup }: TenantUrlRules,
): Promise<string | null> {
  const problem = problemOfUrlForm(text, { production })
  if (problem !== null) return problem
  const host = hostOf(new URL(text))
  const addresses =
    isIP(host) === 0 ? await lookupWithin(lookup, host, LOOKUP_TIMEOUT_MS).catch((): string[] => []) : [host]
  return addresses.every((address) => isReachable(address, allowed)) ? null : NOT_PUBLIC
}

/** The host name or address, without the brackets of IPv6. */
function hostOf({ hostname }: URL): string {
  return hostname.replace(/^\[(.*)\]$/, '$1')
}

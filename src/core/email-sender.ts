// Checks the sender of an email: when the API accepts the email, and again before a worker sends it.
import { asciiDomain, bareAddress, isSameMailAddress } from './addresses.ts'
import type { Config } from './config.ts'
import { hasEncodedName, impersonates } from './mail-address.ts'

/** Why an address may not be the sender or the reply address. `domains`: the allowed domains. */
export type SenderProblem =
  | { param: 'from' | 'reply_to'; reason: 'encoded_name' | 'system' }
  | { param: 'from'; reason: 'domain'; domains: string[] }

/**
 * The problem of an email's sender; undefined if there is none. `email_domains`: the tenant's own list of allowed
 * domains; null: the list of the installation. If neither list exists, every domain is allowed. EMAIL_FROM is allowed
 * for every tenant, with the configured name or without a name.
 */
export function findSenderProblem(
  { EMAIL_FROM, EMAIL_FROM_DOMAINS, SYSTEM_EMAIL_FROM: system }: Config,
  email_domains: string[] | null,
  { from, reply_to }: { from?: string | null | undefined; reply_to?: string | null | undefined },
): SenderProblem | undefined {
  for (const [param, address] of [['from', from] as const, ['reply_to', reply_to] as const]) {
    if (address == null) continue
    if (hasEncodedName(address)) return { param, reason: 'encoded_name' }
    if (system !== undefined && impersonates(address, system)) return { param, reason: 'system' }
  }
  const any_domain = email_domains === null && EMAIL_FROM_DOMAINS.length === 0
  if (from == null || any_domain || (EMAIL_FROM !== undefined && isExactAddress(from, EMAIL_FROM)))
    return undefined
  const domains = email_domains ?? EMAIL_FROM_DOMAINS
  const domain = asciiDomain(bareAddress(from).split('@').at(-1)!)
  return domains.some((allowed) => allowed.toLowerCase() === domain)
    ? undefined
    : { param: 'from', reason: 'domain', domains }
}

/** Whether both are the same address, with the same name or without one. */
function isExactAddress(from: string, configured: string): boolean {
  return isSameMailAddress(from, configured) && (from === configured || bareAddress(from) === from.trim())
}

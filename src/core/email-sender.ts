// Whose name an email may bear: the API judges it when it is accepted, and the worker again before it leaves.
import { asciiDomain, bareAddress, isSameMailAddress } from './addresses.ts'
import type { Config } from './config.ts'
import { hasEncodedName, impersonates } from './mail-address.ts'

/** Why an email may not be from such an address, or have answers sent to it. `domains`: those that it may be from. */
export type SenderProblem =
  | { param: 'from' | 'reply_to'; reason: 'encoded_name' | 'system' }
  | { param: 'from'; reason: 'domain'; domains: string[] }

/**
 * What is wrong with who an email is from; undefined: nothing. `email_domains`: those of its tenant; null: it has those of the
 * installation, which are any where none is named. The installation's own address is everybody's, but under no other name.
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

/** The same address, with the same name or none. */
function isExactAddress(from: string, configured: string): boolean {
  return isSameMailAddress(from, configured) && (from === configured || bareAddress(from) === from.trim())
}

// Whose name an email may bear: the API judges it when it is accepted, and the worker again before it leaves.
import { asciiDomain, bareAddress, isSameMailAddress } from './addresses.ts'
import type { Config } from './config.ts'
import { hasEncodedName, passesFor } from './mail-address.ts'

/** Why an email may not be from such an address, or have answers sent to it. `domains`: those that it may be from. */
export type SenderFault =
  | { param: 'from' | 'reply_to'; why: 'encoded_name' | 'system' }
  | { param: 'from'; why: 'domain'; domains: string[] }

/**
 * What is wrong with who an email is from; undefined: nothing. `email_domains`: those of its tenant; null: it has those of the
 * installation, which are any where none is named. The installation's own address is everybody's, but under no other name.
 */
export function faultOfSender(
  { EMAIL_FROM, EMAIL_FROM_DOMAINS, SYSTEM_EMAIL_FROM: system }: Config,
  email_domains: string[] | null,
  { from, reply_to }: { from?: string | null | undefined; reply_to?: string | null | undefined },
): SenderFault | undefined {
  for (const [param, address] of [['from', from] as const, ['reply_to', reply_to] as const]) {
    if (address == null) continue
    if (hasEncodedName(address)) return { param, why: 'encoded_name' }
    if (system !== undefined && passesFor(address, system)) return { param, why: 'system' }
  }
  const is_any = email_domains === null && EMAIL_FROM_DOMAINS.length === 0
  if (from == null || is_any || (EMAIL_FROM !== undefined && isAsItStands(from, EMAIL_FROM))) return undefined
  const domains = email_domains ?? EMAIL_FROM_DOMAINS
  const domain = asciiDomain(bareAddress(from).split('@').at(-1)!)
  return domains.some((allowed) => allowed.toLowerCase() === domain)
    ? undefined
    : { param: 'from', why: 'domain', domains }
}

/** The same address, with the same name or none. */
function isAsItStands(from: string, own: string): boolean {
  return isSameMailAddress(from, own) && (from === own || bareAddress(from) === from.trim())
}

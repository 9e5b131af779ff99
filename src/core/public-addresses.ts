// Which IP addresses are public, and the networks that configuration allows besides.
import { BlockList, isIP } from 'node:net'

/** Private, shared, reserved, documentation and multicast networks (IANA special-purpose registries). */
const NOT_PUBLIC_V4 = [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.0.2.0/24',
  '192.88.99.0/24',
  '192.168.0.0/16',
  '198.18.0.0/15',
  '198.51.100.0/24',
  '203.0.113.0/24',
  '224.0.0.0/4',
  '240.0.0.0/4',
]
/** All else of IPv6 is private or not assigned: NAT64 and loopback too. */
const GLOBAL_V6 = ['2000::/3']
/** Within it: protocol assignments with Teredo, documentation and 6to4. */
const NOT_PUBLIC_V6 = ['2001::/23', '2001:db8::/32', '2002::/16', '3fff::/20']
const MAPPED_V4 = ['::ffff:0:0/96']

const notPublic4 = networksOf(NOT_PUBLIC_V4)
const notPublic6 = networksOf(NOT_PUBLIC_V6)
const global6 = networksOf(GLOBAL_V6)
const mapped4 = networksOf(MAPPED_V4)

/** Networks in CIDR notation as a list that can be asked. Throws when one is not valid: see `problemOfNetwork`. */
export function networksOf(cidrs: readonly string[]): BlockList {
  const list = new BlockList()
  for (const cidr of cidrs) {
    const problem = problemOfNetwork(cidr)
    if (problem !== null) throw new Error(problem)
    const [address = '', bits] = cidr.split('/')
    list.addSubnet(address, Number(bits), isIP(address) === 4 ? 'ipv4' : 'ipv6')
  }
  return list
}

/** Why this text is no network in CIDR notation, naming it; or null. */
export function problemOfNetwork(cidr: string): string | null {
  const [address = '', bits, ...more] = cidr.split('/')
  const family = address.includes('%') ? 0 : isIP(address)
  if (family === 0 || more.length > 0) return `${cidr} is not a network, such as 10.0.0.0/8 or fd00::/8`
  const most = family === 4 ? 32 : 128
  if (bits === undefined) return `${cidr} has no prefix length: for one address write ${cidr}/${most}`
  return /^(0|[1-9]\d{0,2})$/.test(bits) && Number(bits) <= most
    ? null
    : `${cidr} has a wrong prefix length: it must be 0 to ${most}`
}

/** Whether this is the address of a public host, or in one of the allowed networks. False for what is no address. */
export function isReachable(address: string, allowed: BlockList): boolean {
  const family = address.includes('%') ? 0 : isIP(address)
  if (family === 0) return false
  // A list of IPv4 networks also holds the mapped addresses of its own (::ffff:10.0.0.1).
  return allowed.check(address, family === 4 ? 'ipv4' : 'ipv6') || isPublic(address, family)
}

function isPublic(address: string, family: number): boolean {
  if (family === 4) return !notPublic4.check(address, 'ipv4')
  if (mapped4.check(address, 'ipv6')) return !notPublic4.check(address, 'ipv6')
  return global6.check(address, 'ipv6') && !notPublic6.check(address, 'ipv6')
}

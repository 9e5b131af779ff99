// Public IP addresses, and further networks that the configuration allows.
import { BlockList, isIP } from 'node:net'

/**
 * Private, shared, reserved, documentation and multicast networks (IANA special-purpose registries), and Azure's
 * platform.
 */
const NOT_PUBLIC_V4 = [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '168.63.129.16/32',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.0.2.0/24',
  '192.31.196.0/24',
  '192.52.193.0/24',
  '192.88.99.0/24',
  '192.168.0.0/16',
  '192.175.48.0/24',
  '198.18.0.0/15',
  '198.51.100.0/24',
  '203.0.113.0/24',
  '224.0.0.0/4',
  '240.0.0.0/4',
]
/** All other IPv6 addresses are private or unassigned, including NAT64 and loopback. */
const GLOBAL_V6 = ['2000::/3']
/** Networks within 2000::/3 that are not public: protocol assignments with Teredo, documentation, 6to4 and AS112. */
const NOT_PUBLIC_V6 = ['2001::/23', '2001:db8::/32', '2002::/16', '2620:4f:8000::/48', '3fff::/20']
const MAPPED_V4 = ['::ffff:0:0/96']
/** Link-local networks, where clouds serve credentials. */
const LINK_LOCAL = ['169.254.0.0/16', 'fe80::/10']
/** The addresses at which clouds serve credentials: AWS, Google and most others, Alibaba, Oracle, Azure. */
const CREDENTIALS_V4 = ['169.254.0.0/16', '100.100.100.200/32', '192.0.0.192/32', '168.63.129.16/32']
const CREDENTIALS_V6 = ['fd00:ec2::254/128', 'fd20:ce::254/128']
const CREDENTIALS = [...CREDENTIALS_V4, ...CREDENTIALS_V4.flatMap(translatedNetworks), ...CREDENTIALS_V6]
const MIN_PREFIX_V4 = 8
const MIN_PREFIX_V6 = 16

const notPublic4 = networksOf(NOT_PUBLIC_V4)
const notPublic6 = networksOf(NOT_PUBLIC_V6)
const global6 = networksOf(GLOBAL_V6)
const mapped4 = networksOf(MAPPED_V4)
const linkLocal = networksOf(LINK_LOCAL)
const credentials = networksOf(CREDENTIALS)

/** A BlockList of networks in CIDR notation. Throws if one is invalid: see `problemOfNetwork`. */
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

/** Why this text is no network in CIDR notation, or null. */
export function problemOfNetwork(cidr: string): string | null {
  const [address = '', bits, ...more] = cidr.split('/')
  const family = address.includes('%') ? 0 : isIP(address)
  if (family === 0 || more.length > 0) return `${cidr} is not a network, such as 10.0.0.0/8 or fd00::/8`
  const max_prefix = family === 4 ? 32 : 128
  if (bits === undefined) return `${cidr} has no prefix length: for one address write ${cidr}/${max_prefix}`
  return /^(0|[1-9]\d{0,2})$/.test(bits) && Number(bits) <= max_prefix
    ? null
    : `${cidr} has a wrong prefix length: it must be 0 to ${max_prefix}`
}

/** Why a process in production may not allow this valid network, or null. */
export function problemOfAllowedNetwork(cidr: string): string | null {
  const network = networksOf([cidr])
  const [address = '', bits] = cidr.split('/')
  const family = isIP(address) === 4 ? 'ipv4' : 'ipv6'
  const of_v4 = Number(bits) - (mapped4.check(address, family) && Number(bits) >= 96 ? 96 : 0)
  const [prefix, min_prefix] =
    family === 'ipv4' || of_v4 < Number(bits) ? [of_v4, MIN_PREFIX_V4] : [Number(bits), MIN_PREFIX_V6]
  if (prefix < min_prefix)
    return `in production ${cidr} is too wide: the shortest prefix is /${MIN_PREFIX_V4} of IPv4, /${MIN_PREFIX_V6} of IPv6`
  const has_link_local =
    family === 'ipv4'
      ? network.check('169.254.0.0', 'ipv4')
      : network.check('::ffff:169.254.0.0', 'ipv6') || network.check('fe80::', 'ipv6')
  if (has_link_local || linkLocal.check(address, family))
    return `in production ${cidr} may not be allowed: it contains link-local addresses, where clouds serve credentials`
  const only_credentials = CREDENTIALS.some(
    (each) => networksOf([each]).check(address, family) && prefix >= Number(each.split('/')[1]),
  )
  return only_credentials
    ? `in production ${cidr} may not be allowed: clouds serve credentials at this address`
    : null
}

/**
 * Whether an address is public or in one of the allowed networks. False for an invalid address, and for addresses
 * where clouds serve credentials, even if they are allowed.
 */
export function isReachable(address: string, allowed: BlockList): boolean {
  const family = address.includes('%') ? 0 : isIP(address)
  if (family === 0 || isMetadataService(address, family)) return false
  // A BlockList of IPv4 networks also matches IPv4-mapped IPv6 addresses such as ::ffff:10.0.0.1.
  return allowed.check(address, family === 4 ? 'ipv4' : 'ipv6') || isPublic(address, family)
}

function isMetadataService(address: string, family: number): boolean {
  if (family === 4) return credentials.check(address, 'ipv4')
  if (credentials.check(address, 'ipv6')) return true
  const embedded = embeddedV4(address)
  return embedded !== null && credentials.check(embedded, 'ipv4')
}

/** The IPv6 networks that lead to an IPv4 network: by NAT64 (RFC 6052) and by 6to4 (RFC 3056). */
function translatedNetworks(cidr: string): string[] {
  const [address = '', bits] = cidr.split('/')
  const [a = 0, b = 0, c = 0, d = 0] = address.split('.').map(Number)
  const halves = [a * 256 + b, c * 256 + d].map((half) => half.toString(16)).join(':')
  return [`64:ff9b::${address}/${96 + Number(bits)}`, `2002:${halves}::/${16 + Number(bits)}`]
}

function isPublic(address: string, family: number): boolean {
  if (family === 4) return !notPublic4.check(address, 'ipv4')
  if (mapped4.check(address, 'ipv6')) return !notPublic4.check(address, 'ipv6')
  if (!global6.check(address, 'ipv6') || notPublic6.check(address, 'ipv6')) return false
  const embedded = embeddedV4(address)
  return embedded === null || !notPublic4.check(embedded, 'ipv4')
}

/** The IPv4 address in an ISATAP address (RFC 5214): its lower half is 0:5efe or 200:5efe, followed by that address. */
function embeddedV4(address: string): string | null {
  // In lower case, hexadecimal, without leading zeros.
  const canonical = new URL(`http://[${address}]`).hostname.slice(1, -1)
  const [first = [], last] = canonical.split('::').map((side) => (side === '' ? [] : side.split(':')))
  const zeros = Array.from({ length: last === undefined ? 0 : 8 - first.length - last.length }, () => '0')
  const [marks, mark, high, low] = [...first, ...zeros, ...(last ?? [])].slice(4)
  if (mark !== '5efe' || (marks !== '0' && marks !== '200')) return null
  return [high, low].flatMap((part) => [parseInt(part!, 16) >> 8, parseInt(part!, 16) & 0xff]).join('.')
}

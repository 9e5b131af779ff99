// The network of a caller.

/**
 * The network that shares a rate limit: an IPv4 address, or the /64 of an IPv6 address. A port that a proxy appends
 * is ignored.
 */
export function networkOf(address: string): string {
  const ip = /^\[(.*)\]/.exec(address)?.[1] ?? address
  const v4 = /^(?:::ffff:)?(\d+(?:\.\d+){3})(?::\d+)?$/i.exec(ip)?.[1]
  if (v4 !== undefined) return v4
  const [before = [], after = []] = ip.split('::').map((part) => part.split(':').filter(Boolean))
  const zeros = Array.from({ length: Math.max(0, 8 - before.length - after.length) }, () => '0')
  return [...before, ...zeros, ...after]
    .slice(0, 4)
    .map((group) => Number.parseInt(group, 16).toString(16))
    .join(':')
}

// Parses REDIS_URL: one server, the primary behind Sentinels, or a Cluster.

export type RedisAddress = {
  nodes: { host: string; port: number }[]
  username?: string
  password?: string
  tls: boolean
} & ({ kind: 'single'; db: number } | { kind: 'sentinel'; primary: string } | { kind: 'cluster' })

const REDIS_URL_PATTERN =
  /^redis(?<tls>s)?(?:\+(?<kind>sentinel|cluster))?:\/\/(?:(?<username>[^:@/]*)(?::(?<password>[^@/]*))?@)?(?<nodes>[^/?#]+)(?:\/(?<path>[^/?#]*))?$/
const NODE = /^(?<host>\[[0-9a-fA-F:.]+\]|[^:[\]]+)(?::(?<port>\d{1,5}))?$/
const PORTS = { single: 6379, cluster: 6379, sentinel: 26379 }

/**
 * Parses `redis://host:port/db`, `redis+sentinel://host:port,host:port/primary` or
 * `redis+cluster://host:port,host:port`, each with `user:password@` (percent-encoded) before the hosts and with
 * `rediss` for TLS. Undefined if the text has none of these forms.
 */
export function parseRedisUrl(text: string): RedisAddress | undefined {
  const groups = REDIS_URL_PATTERN.exec(text)?.groups
  if (groups === undefined) return undefined
  const kind = (groups['kind'] ?? 'single') as RedisAddress['kind']
  const path = groups['path'] ?? ''
  const nodes = groups['nodes']!.split(',').flatMap((node) => {
    const node_groups = NODE.exec(node)?.groups
    const port = Number(node_groups?.['port'] ?? PORTS[kind])
    return node_groups === undefined || port < 1 || port > 65_535
      ? []
      : [{ host: node_groups['host']!.replaceAll(/[[\]]/g, ''), port }]
  })
  if (nodes.length !== groups['nodes']!.split(',').length) return undefined
  const credentials = decodeUrlParts({ username: groups['username'], password: groups['password'] })
  if (credentials === undefined) return undefined
  const common = { nodes, tls: groups['tls'] !== undefined, ...credentials }
  if (kind === 'cluster') return path === '' ? { ...common, kind } : undefined
  if (kind === 'sentinel') return path === '' ? undefined : { ...common, kind, primary: path }
  return nodes.length === 1 && /^\d{0,4}$/.test(path) ? { ...common, kind, db: Number(path) } : undefined
}

function decodeUrlParts(encoded: Record<string, string | undefined>): Record<string, string> | undefined {
  try {
    return Object.fromEntries(
      Object.entries(encoded).flatMap(([name, value]) => (value ? [[name, decodeURIComponent(value)]] : [])),
    )
  } catch {
    return undefined
  }
}

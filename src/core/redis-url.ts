// Parses REDIS_URL: one server, the primary behind Sentinels, or a Cluster.

export type RedisPlace = {
  nodes: { host: string; port: number }[]
  username?: string
  password?: string
  tls: boolean
} & ({ kind: 'single'; db: number } | { kind: 'sentinel'; primary: string } | { kind: 'cluster' })

const FORM =
  /^redis(?<tls>s)?(?:\+(?<kind>sentinel|cluster))?:\/\/(?:(?<username>[^:@/]*)(?::(?<password>[^@/]*))?@)?(?<nodes>[^/?#]+)(?:\/(?<path>[^/?#]*))?$/
const NODE = /^(?<host>\[[0-9a-fA-F:.]+\]|[^:[\]]+)(?::(?<port>\d{1,5}))?$/
const PORTS = { single: 6379, cluster: 6379, sentinel: 26379 }

/**
 * Reads `redis://host:port/db`, `redis+sentinel://host:port,host:port/primary` or
 * `redis+cluster://host:port,host:port`, each with `user:password@` (percent-encoded) before the hosts and with
 * `rediss` for TLS. Undefined when it has none of these forms.
 */
export function parseRedisUrl(text: string): RedisPlace | undefined {
  const found = FORM.exec(text)?.groups
  if (found === undefined) return undefined
  const kind = (found['kind'] ?? 'single') as RedisPlace['kind']
  const path = found['path'] ?? ''
  const nodes = found['nodes']!.split(',').flatMap((node) => {
    const parts = NODE.exec(node)?.groups
    const port = Number(parts?.['port'] ?? PORTS[kind])
    return parts === undefined || port < 1 || port > 65_535
      ? []
      : [{ host: parts['host']!.replaceAll(/[[\]]/g, ''), port }]
  })
  if (nodes.length !== found['nodes']!.split(',').length) return undefined
  const credentials = decoded({ username: found['username'], password: found['password'] })
  if (credentials === undefined) return undefined
  const common = { nodes, tls: found['tls'] !== undefined, ...credentials }
  if (kind === 'cluster') return path === '' ? { ...common, kind } : undefined
  if (kind === 'sentinel') return path === '' ? undefined : { ...common, kind, primary: path }
  return nodes.length === 1 && /^\d{0,4}$/.test(path) ? { ...common, kind, db: Number(path) } : undefined
}

function decoded(given: Record<string, string | undefined>): Record<string, string> | undefined {
  try {
    return Object.fromEntries(
      Object.entries(given).flatMap(([name, value]) => (value ? [[name, decodeURIComponent(value)]] : [])),
    )
  } catch {
    return undefined
  }
}

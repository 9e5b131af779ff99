// Connections to Redis: one server, the primary behind Sentinels, or a Cluster.
import { Cluster, Redis, type RedisOptions } from 'ioredis'
import { parseRedisUrl, type RedisAddress } from '#core/redis-url.ts'
import { cluster_retry_ms, disconnecting_limit_ms } from './settings.ts'

export type RedisClient = Redis | Cluster

/** Connects in the background, and reconnects as `options` specify. */
export function connectRedis(url: string, options: RedisOptions): RedisClient {
  const address = addressOf(url)
  if (address.kind !== 'cluster') return new Redis(optionsOf(address, options))
  const { retryStrategy, enableOfflineQueue, ...each } = options
  const client = new Cluster(address.nodes, {
    redisOptions: { ...credentialsOf(address), ...each },
    clusterRetryStrategy: retryStrategy,
    enableOfflineQueue,
    // Without an offline queue a command is refused while its server's connection opens, and is retried after this
    // delay.
    retryDelayOnFailover: enableOfflineQueue === false ? cluster_retry_ms : undefined,
    // Short enough to find the new primary after a failover before a command is sent to the wrong server.
    slotsRefreshInterval: 2_000,
    slotsRefreshTimeout: options.connectTimeout,
  })
  // In ioredis 6.0 a command that is redirected during a disconnect keeps the client in `disconnecting` for ever. A
  // second disconnect ends this state.
  client.on('disconnecting', () => {
    const disconnectAgain = () => client.status === 'disconnecting' && client.disconnect(true)
    setTimeout(disconnectAgain, disconnecting_limit_ms).unref()
  })
  return client
}

/**
 * Connects to receive published messages. In a Cluster each server forwards all of them: when the connection is lost,
 * the next server is tried.
 */
export function connectListener(url: string, options: RedisOptions): Redis {
  const address = addressOf(url)
  if (address.kind !== 'cluster') return new Redis(optionsOf(address, options))
  const { nodes } = address
  let current = Math.floor(Math.random() * nodes.length)
  const client = new Redis({ ...credentialsOf(address), ...options, ...nodes[current] })
  client.on('close', () => {
    current = (current + 1) % nodes.length
    Object.assign(client.options, nodes[current])
  })
  return client
}

/** The addresses in a URL, without its credentials. */
export function addressesOf(url: string): string {
  return addressOf(url)
    .nodes.map(({ host, port }) => `${host}:${port}`)
    .join(', ')
}

function optionsOf(address: Exclude<RedisAddress, { kind: 'cluster' }>, options: RedisOptions): RedisOptions {
  if (address.kind === 'single')
    return { ...credentialsOf(address), db: address.db, ...options, ...address.nodes[0] }
  return {
    ...credentialsOf(address),
    ...options,
    name: address.primary,
    sentinels: address.nodes,
    sentinelRetryStrategy: options.retryStrategy ?? undefined,
    ...(address.tls && { enableTLSForSentinelMode: true }),
  }
}

function credentialsOf({ username, password, tls }: RedisAddress): RedisOptions {
  return { username, password, ...(tls && { tls: {} }) }
}

function addressOf(url: string): RedisAddress {
  const address = parseRedisUrl(url)
  if (address === undefined) throw new Error('the address of Redis is invalid')
  return address
}

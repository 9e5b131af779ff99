// Redis with several servers: a Cluster of three masters with one replica each, and a primary with a replica and three
// Sentinels.
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { freePort } from '#start/ports.ts'
import { findProgram, spawnServer } from '#start/processes.ts'
import type { EmbeddedRedis } from '#start/redis.ts'
import { createTemporaryFolder } from './folders.ts'
import { until } from './process.ts'
import { needRedis } from './redis.ts'

export type RedisDeployment = {
  url: string
  /** The port of the server that takes writes to `key`. Undefined while no server takes them. */
  primaryOf(key: string): Promise<number | undefined>
  /** Kills the server that takes writes to `key`. */
  killPrimaryOf(key: string): Promise<void>
  /** Restarts killed servers on their ports, without data. The other servers accept them again. */
  revive(): Promise<void>
  /** Deletes all data of every server that takes writes. */
  flush(): Promise<void>
  stop(): Promise<void>
}

/** All servers have the same password, because replicas authenticate with it. */
const PASSWORD = 'of-all-places'
/** No data is persisted, not even a replica's copy of its primary. */
const NO_PERSISTENCE = { appendonly: 'no', 'rdb-del-sync-files': 'yes', masterauth: PASSWORD }
const SLOTS = 16_384
const MASTERS = 3
/** A server that does not answer for this long is replaced. */
const NODE_TIMEOUT_MS = '1000'

type Node = {
  settings: Record<string, string>
  /** In this folder a Cluster node stores only its identity. */
  folder: Awaited<ReturnType<typeof createTemporaryFolder>>
  server: EmbeddedRedis
  client: Redis
  bus: number
  alive: boolean
}

async function startNode(settings: Record<string, string>, bus = 0): Promise<Node> {
  const folder = await createTemporaryFolder()
  return { settings, folder, bus, alive: true, ...(await launch(folder.path, settings, 0)) }
}

async function launch(
  data_dir: string,
  settings: Record<string, string>,
  port: number,
): Promise<Pick<Node, 'server' | 'client'>> {
  const server = await needRedis({
    data_dir,
    port,
    password: PASSWORD,
    settings: { ...NO_PERSISTENCE, ...settings },
  })
  const client = new Redis(server.url, { retryStrategy: () => 200, maxRetriesPerRequest: 1 })
  client.on('error', () => {})
  return { server, client }
}

async function kill(node: Node): Promise<void> {
  node.alive = false
  node.client.disconnect()
  await node.server.kill()
}

async function reviveAll(nodes: Node[]): Promise<void> {
  const dead = nodes.filter(({ alive }) => !alive)
  for (const node of dead) {
    Object.assign(node, await launch(node.folder.path, node.settings, node.server.port))
    node.alive = true
  }
}

/**
 * Deletes all data. Replicas refuse the command, and dead servers have no data. Throws if all servers refuse the
 * command.
 */
async function flushAll(nodes: Node[]): Promise<void> {
  const living = nodes.filter(({ alive }) => alive)
  await Promise.any(living.map(({ client }) => client.flushall()))
}

async function killNodes(writableNodes: () => Promise<Node[]>): Promise<void> {
  const found = await until('a server takes writes', async () => {
    const nodes = await writableNodes()
    return nodes.length > 0 && nodes
  })
  for (const node of found) await kill(node)
}

async function stopAll(nodes: Node[]): Promise<void> {
  for (const { client } of nodes) client.disconnect()
  await Promise.all(nodes.filter(({ alive }) => alive).map(({ server }) => server.stop()))
  await Promise.all(nodes.map(({ folder }) => folder.remove()))
}

export async function startRedisCluster(): Promise<RedisDeployment> {
  const nodes = await Promise.all(
    Array.from({ length: 2 * MASTERS }, async () => {
      const bus = await freePort('127.0.0.1')
      return await startNode(
        { 'cluster-enabled': 'yes', 'cluster-port': String(bus), 'cluster-node-timeout': NODE_TIMEOUT_MS },
        bus,
      )
    }),
  )
  const masters = nodes.slice(0, MASTERS)
  const share = Math.ceil(SLOTS / MASTERS)
  for (const [index, { client }] of masters.entries()) {
    const last = Math.min(SLOTS, (index + 1) * share) - 1
    await client.call('CLUSTER', 'ADDSLOTSRANGE', index * share, last)
    await client.call('CLUSTER', 'SET-CONFIG-EPOCH', index + 1)
  }
  for (const { server, bus } of nodes.slice(1))
    await nodes[0]!.client.call('CLUSTER', 'MEET', '127.0.0.1', server.port, bus)
  const isComplete = (lines: string) =>
    lines.split('\n').filter((line) => / connected/.test(line)).length === nodes.length
  for (const { client } of nodes)
    await until('the nodes know each other', async () =>
      isComplete(String(await client.call('CLUSTER', 'NODES'))),
    )
  for (const [index, { client }] of nodes.slice(MASTERS).entries()) {
    const id = await masters[index]!.client.call('CLUSTER', 'MYID')
    await client.call('CLUSTER', 'REPLICATE', String(id))
    await until('the replica is connected', async () =>
      (await client.info('replication')).includes('master_link_status:up'),
    )
  }
  for (const { client } of nodes)
    await until('the cluster is up', async () =>
      String(await client.call('CLUSTER', 'INFO')).includes('cluster_state:ok'),
    )

  async function writableNodes(key: string): Promise<Node[]> {
    const is_writable = await Promise.all(
      nodes.map(
        async ({ client, alive }) =>
          alive &&
          (await client.set(`${key}:taker`, '1').then(
            () => true,
            () => false,
          )),
      ),
    )
    return nodes.filter((_node, index) => is_writable[index])
  }
  return {
    url: `redis+cluster://:${PASSWORD}@${nodes.map(({ server }) => `127.0.0.1:${server.port}`).join(',')}`,
    killPrimaryOf: (key) => killNodes(() => writableNodes(key)),
    primaryOf: async (key) => (await writableNodes(key))[0]?.server.port,
    revive: () => reviveAll(nodes),
    flush: () => flushAll(nodes),
    stop: () => stopAll(nodes),
  }
}

export async function startRedisSentinels(): Promise<RedisDeployment> {
  const program = findProgram(['redis-server', 'valkey-server'])
  if (program === null)
    throw new Error('redis-server or valkey-server is needed on the PATH and was not found')
  const nodes = [await startNode({}), await startNode({})]
  const [primary, replica] = nodes as [Node, Node]
  await replica.client.replicaof('127.0.0.1', primary.server.port)
  await until('the replica is connected', async () =>
    (await replica.client.info('replication')).includes('master_link_status:up'),
  )
  const folders = await Promise.all(Array.from({ length: 3 }, createTemporaryFolder))
  const sentinels = await Promise.all(
    folders.map(async ({ path }) => {
      const port = await freePort('127.0.0.1')
      const file = join(path, 'sentinel.conf')
      const lines = [
        `port ${port}`,
        'bind 127.0.0.1',
        `dir ${path}`,
        `sentinel monitor sluice 127.0.0.1 ${primary.server.port} 2`,
        `sentinel auth-pass sluice ${PASSWORD}`,
        `sentinel down-after-milliseconds sluice ${NODE_TIMEOUT_MS}`,
        'sentinel failover-timeout sluice 5000',
      ]
      await writeFile(file, `${lines.join('\n')}\n`)
      const server = await spawnServer({
        command: program,
        args: [file, '--sentinel'],
        folder: path,
        account: null,
        end_signal: 'SIGTERM',
      })
      return { port, server }
    }),
  )
  for (const { port } of sentinels) {
    const client = new Redis(port, '127.0.0.1', { retryStrategy: () => 100 })
    client.on('error', () => {})
    const state = async () => String(await client.call('SENTINEL', 'MASTER', 'sluice'))
    await until('the Sentinels know the replica and each other', async () => {
      const fields = (await state().catch(() => '')).split(',')
      const count = (name: string) => Number(fields[fields.indexOf(name) + 1])
      return count('num-slaves') === 1 && count('num-other-sentinels') === 2
    })
    client.disconnect()
  }

  async function primaries(): Promise<Node[]> {
    const info = await Promise.all(nodes.map(({ client }) => client.info('replication').catch(() => '')))
    return nodes.filter(({ alive }, index) => alive && info[index]!.includes('role:master'))
  }
  return {
    url: `redis+sentinel://:${PASSWORD}@${sentinels.map(({ port }) => `127.0.0.1:${port}`).join(',')}/sluice`,
    killPrimaryOf: () => killNodes(primaries),
    primaryOf: async () => (await primaries())[0]?.server.port,
    revive: () => reviveAll(nodes),
    flush: () => flushAll(nodes),
    async stop() {
      await Promise.all(sentinels.map(({ server }) => server.end(['SIGTERM', 'SIGKILL'], 5_000)))
      await stopAll(nodes)
      await Promise.all(folders.map((folder) => folder.remove()))
    },
  }
}

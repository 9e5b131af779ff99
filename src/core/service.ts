// Shared by all services: `/readyz` and `/metrics`, and the start.
import { createServer, type Server } from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { loadConfig, requireVariables, queueConfig, type Config } from './config.ts'
import { describeVariables } from './config/help.ts'
import type { ProcessName } from './config/row.ts'
import { unavailability, type Sql } from './db.ts'
import { startHeartbeat, type ProcessFacts } from './heartbeat.ts'
import { HEALTH_PATH } from './listener.ts'
import { assertMigrated } from './migrate.ts'
import { registry } from './metrics.ts'
import { createLog, type Log } from './log.ts'
import { run, type Stoppable } from './run.ts'
import { checkDatabase, checkAddresses, listenAddresses, portError, type ListenAddress } from './startup.ts'
import { sharedLogDescriptor, isSupervised } from './supervised.ts'

/** Returns the `/readyz` facts of a process that is ready; rejects while it is not. */
export type ReadinessCheck = () => Promise<Record<string, unknown>>

/** A part that runs as its own process. `url`: its listening address. */
export type Service = Stoppable & { ready: ReadinessCheck; url?: string }

/**
 * Serves `/metrics`, `/readyz` and `/healthz` on a separate address. Default of `readMetrics`: the metrics of this
 * process. Throws ConfigError if the address cannot be used.
 */
export async function serveOperations(
  address: ListenAddress,
  ready: ReadinessCheck,
  readMetrics: () => Promise<string> = () => registry.metrics(),
): Promise<Stoppable & { url: string }> {
  const server = createServer((request, response) => {
    void answer(request.url ?? '/').then(({ status, type, body }) =>
      response.writeHead(status, { 'content-type': type }).end(body),
    )
  })

  async function answer(url: string): Promise<{ status: number; type: string; body: string }> {
    if (url === '/metrics') return { status: 200, type: registry.contentType, body: await readMetrics() }
    if (url === HEALTH_PATH) return json(200, { status: 'ok' })
    if (url !== '/readyz') return { status: 404, type: 'text/plain', body: 'not found\n' }
    try {
      return json(200, { status: 'ready', ...(await ready()) })
    } catch (error) {
      return json(503, { status: 'not ready', reason: unavailability(error) })
    }
  }

  const url = await listen(server, address)
  return {
    url,
    async close() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

function json(status: number, body: unknown): { status: number; type: string; body: string } {
  return { status, type: 'application/json', body: `${JSON.stringify(body)}\n` }
}

async function listen(server: Server, address: ListenAddress): Promise<string> {
  const { host, port } = address
  server.listen(port, host)
  try {
    await once(server, 'listening')
  } catch (error) {
    throw portError(error, address)
  }
  const { port: bound } = server.address() as AddressInfo
  return `http://${host.includes(':') ? `[${host}]` : host}:${bound}`
}

/** Runs a service as its own process, after checking its configuration, ports and database. */
export async function runService(
  name: 'api' | 'webhooks' | 'worker' | 'dashboard',
  about: string,
  start: (config: Config, log: Log) => Promise<Service>,
): Promise<void> {
  await run(helpOf(`sluice ${name}: ${about}`, name), async () => {
    // The supervisor has already warned about `.env`.
    const config = loadConfig(process.env, isSupervised() ? () => {} : undefined)
    requireVariables(config, name)
    queueConfig(config)
    const { metrics, ...own } = listenAddresses(config, name)
    await checkAddresses(name === 'worker' ? [metrics] : [own[name], metrics])
    const log = createLog(config.LOG_LEVEL, name, sharedLogDescriptor())
    await checkDatabase(config, { warn: (text) => log.warn(text) })
    const service = await start(config, log)
    const operations = await serveOperations(metrics, service.ready)
    log.info({ url: operations.url }, '/metrics and /readyz listen')
    return {
      log,
      addresses: { url: service.url, operations_url: operations.url },
      async close() {
        await service.close()
        await operations.close()
      },
    }
  })
}

/**
 * Creates a started service. The service is ready while its database is ready, and `/readyz` shows `facts`. Its
 * heartbeat shows the service in the operators' list of processes. Closing the service disposes of `cleanup`, the last
 * added first.
 */
export function createService(
  cleanup: AsyncDisposableStack,
  sql: Sql,
  process: ProcessFacts,
  facts: Record<string, unknown> = {},
): Service {
  const heartbeat = startHeartbeat(sql, process)
  return {
    async ready() {
      await assertMigrated(sql)
      return facts
    },
    async close() {
      await heartbeat.stop()
      await cleanup.disposeAsync()
    },
  }
}

/** The text of `--help`: the purpose of the process, and every variable that it reads. */
export function helpOf(about: string, name: ProcessName): string {
  return `${about}\n\nConfiguration is the environment and a file .env in this folder:\n\n${describeVariables(name)}`
}

// What all processes have in common: `/readyz` and `/metrics`, the start, and an orderly stop on a signal.
import { createServer, type Server } from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { parseArgs } from 'node:util'
import { ConfigError, loadConfig, needAll, queueConfig, type Config } from './config.ts'
import { describeVariables } from './config/help.ts'
import type { ProcessName } from './config/variables.ts'
import type { Sql } from './db.ts'
import { assertMigrated } from './migrate.ts'
import { isLateWrite } from './pool.ts'
import { registry } from './metrics.ts'
import { createLog, type Log } from './log.ts'
import {
  checkDatabase,
  checkAddresses,
  listenAddresses,
  portError,
  errorText,
  type ListenAddress,
} from './startup.ts'

/** A part of a process that can be stopped; it finishes what is in flight. */
export type Part = { close(): Promise<void> }

const SHUTDOWN_MS = 25_000
/** Ctrl-C arrives twice within moments: from the terminal, and again from npm, which passes it on. */
const SAME_SIGNAL_MS = 1_000

/** Returns what `/readyz` says of a process that can work; rejects while it cannot. */
export type Ready = () => Promise<Record<string, unknown>>

/** A part that can run as its own process, or together with others in one process. */
export type Service = Part & { ready: Ready }

/** Serves `/metrics` and `/readyz` on an address of their own. Throws ConfigError when the address cannot be used. */
export async function serveOperations(place: ListenAddress, ready: Ready): Promise<Part & { url: string }> {
  const server = createServer((request, response) => {
    void answer(request.url ?? '/').then(({ status, type, body }) =>
      response.writeHead(status, { 'content-type': type }).end(body),
    )
  })

  async function answer(url: string): Promise<{ status: number; type: string; body: string }> {
    if (url === '/metrics') return { status: 200, type: registry.contentType, body: await registry.metrics() }
    if (url !== '/readyz') return { status: 404, type: 'text/plain', body: 'not found\n' }
    try {
      return json(200, { status: 'ready', ...(await ready()) })
    } catch (error) {
      const reason = error instanceof ConfigError ? error.message : 'the database does not answer'
      return json(503, { status: 'not ready', reason })
    }
  }

  const url = await listen(server, place)
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

async function listen(server: Server, place: ListenAddress): Promise<string> {
  const { host, port } = place
  server.listen(port, host)
  try {
    await once(server, 'listening')
  } catch (error) {
    throw portError(error, place)
  }
  const { port: bound } = server.address() as AddressInfo
  return `http://${host.includes(':') ? `[${host}]` : host}:${bound}`
}

/**
 * Runs a process: starts it, stops it on SIGINT or SIGTERM, and prints why when it cannot start. A second signal ends
 * it at once. `--help` prints `help`.
 */
export async function run(help: string, start: () => Promise<Part & { log?: Log }>): Promise<void> {
  try {
    const { values } = parseArgs({ options: { help: { type: 'boolean', short: 'h' } } })
    if (values.help === true) {
      process.stdout.write(`${help}\n`)
      return
    }
  } catch (error) {
    process.stderr.write(`${errorText(error)}\n`)
    process.exitCode = 1
    return
  }
  const starting = Promise.resolve().then(start)
  let stopped_at: number | undefined
  // A signal during the start waits until the start is finished, so that nothing half started is left behind.
  const stop = (signal: NodeJS.Signals) => {
    if (stopped_at !== undefined && performance.now() - stopped_at < SAME_SIGNAL_MS) return
    if (stopped_at !== undefined) process.exit(130)
    stopped_at = performance.now()
    setTimeout(() => process.exit(1), SHUTDOWN_MS).unref()
    void starting
      .then(async (part) => {
        part.log?.info({ signal }, 'stopping: what is in flight is finished first')
        await part.close()
        process.exit(0)
      })
      .catch((error: unknown) => {
        process.stderr.write(`${errorText(error)}\n`)
        process.exit(1)
      })
  }
  process.on('SIGINT', stop)
  process.on('SIGTERM', stop)
  process.on('uncaughtException', (error) => {
    if (isLateWrite(error)) return
    process.stderr.write(`${error.stack ?? String(error)}\n`)
    process.exit(1)
  })
  await starting.catch((error: unknown) => {
    if (stopped_at !== undefined) return
    process.stderr.write(`${errorText(error)}\n`)
    process.exit(1)
  })
}

/** Runs a service as its own process, after checking its configuration, ports and database. */
export async function runService(
  name: 'api' | 'webhooks' | 'worker',
  about: string,
  start: (config: Config, log: Log) => Promise<Service>,
): Promise<void> {
  await run(helpOf(`sluice ${name}: ${about}`, name), async () => {
    const config = loadConfig()
    needAll(config, name)
    queueConfig(config)
    const { metrics, ...own } = listenAddresses(config, name)
    await checkAddresses(name === 'worker' ? [metrics] : [own[name], metrics])
    const log = createLog(config.LOG_LEVEL, name)
    await checkDatabase(config, { warn: (text) => log.warn(text) })
    const service = await start(config, log)
    const operations = await serveOperations(metrics, service.ready)
    log.info({ url: operations.url }, '/metrics and /readyz listen')
    return {
      log,
      async close() {
        await service.close()
        await operations.close()
      },
    }
  })
}

/**
 * A service that has started. It is ready while its database is, and `/readyz` shows `facts`. Closing it disposes of
 * `ends`, the last added first.
 */
export function serviceOf(
  ends: AsyncDisposableStack,
  sql: Sql,
  facts: Record<string, unknown> = {},
): Service {
  return {
    async ready() {
      await assertMigrated(sql)
      return facts
    },
    close: () => ends.disposeAsync(),
  }
}

/** What `--help` prints: what the process does, and every variable that it reads. */
export function helpOf(about: string, name: ProcessName): string {
  return `${about}\n\nConfiguration is the environment and a file .env in this folder:\n\n${describeVariables(name)}`
}

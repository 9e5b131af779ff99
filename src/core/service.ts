// A process as an operator sees it: its own address for readiness and metrics, and an orderly end.
import { createServer, type Server } from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { ConfigError, loadConfig, type Config } from './config.ts'
import { isLateWrite } from './db.ts'
import { registry } from './metrics.ts'
import { createLog, type Log } from './log.ts'

/** A part of a process that can be stopped; it finishes what is in flight. */
export type Part = { close(): Promise<void> }

const SHUTDOWN_MS = 25_000

/**
 * Answers `/metrics` and `/readyz` on an address of their own. `ready` throws or rejects while the process cannot work.
 * Errors: ConfigError when the port is taken.
 */
export async function serveOperations(
  { host, port }: { host: string; port: number },
  ready: () => Promise<unknown>,
): Promise<Part & { url: string }> {
  const server = createServer((request, response) => {
    void answer(request.url ?? '/').then(({ status, type, body }) =>
      response.writeHead(status, { 'content-type': type }).end(body),
    )
  })

  async function answer(url: string): Promise<{ status: number; type: string; body: string }> {
    if (url === '/metrics') return { status: 200, type: registry.contentType, body: await registry.metrics() }
    if (url !== '/readyz') return { status: 404, type: 'text/plain', body: 'not found\n' }
    try {
      await ready()
      return { status: 200, type: 'application/json', body: '{"status":"ready"}\n' }
    } catch {
      return { status: 503, type: 'application/json', body: '{"status":"not ready"}\n' }
    }
  }

  const url = await listen(server, { host, port, variable: 'METRICS_PORT' })
  return {
    url,
    async close() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

/** Listens, and answers where. Errors: ConfigError naming `variable` when the port is taken. */
async function listen(
  server: Server,
  { host, port, variable }: { host: string; port: number; variable: string },
): Promise<string> {
  server.listen(port, host)
  try {
    await once(server, 'listening')
  } catch (error) {
    throw portError(error, variable, port)
  }
  const { port: bound } = server.address() as AddressInfo
  return `http://${host.includes(':') ? `[${host}]` : host}:${bound}`
}

/** A taken or forbidden port as a message for the operator; other errors as they are. */
export function portError(error: unknown, variable: string, port: number): unknown {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  if (code === 'EADDRINUSE')
    return new ConfigError(
      `${variable}: port ${port} is in use. Choose another, or 0 for a free one: ${variable}=0`,
    )
  if (code === 'EACCES')
    return new ConfigError(`${variable}: port ${port} may not be used by this user. Choose one above 1023.`)
  return error
}

/**
 * Runs a process: starts it, stops it once on SIGINT or SIGTERM, and says why when it cannot start. A second signal ends it
 * at once. `--help` prints `help`.
 */
export async function run(help: string, start: () => Promise<Part & { log?: Log }>): Promise<void> {
  if (process.argv.includes('--help') || process.argv.includes('-h')) {
    process.stdout.write(`${help}\n`)
    return
  }
  const starting = Promise.resolve().then(start)
  let stopping = false
  // One that comes while it starts waits for that: nothing half started is left behind.
  const stop = (signal: NodeJS.Signals) => {
    if (stopping) process.exit(130)
    stopping = true
    setTimeout(() => process.exit(1), SHUTDOWN_MS).unref()
    void starting
      .then(async (part) => {
        part.log?.info({ signal }, 'stopping: what is in flight is finished first')
        await part.close()
        process.exit(0)
      })
      .catch((error: unknown) => {
        process.stderr.write(`${String(error)}\n`)
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
  try {
    await starting
  } catch (error) {
    process.stderr.write(
      error instanceof ConfigError
        ? `${error.message}\n`
        : `${error instanceof Error ? error.stack : String(error)}\n`,
    )
    process.exit(1)
  }
}

/** Runs one part as a process of its own. `metrics_port`: unless METRICS_PORT says otherwise; one for each kind of process. */
export async function runService(service: {
  name: string
  help: string
  metrics_port: number
  start: (config: Config, log: Log) => Promise<Part & { ready: () => Promise<unknown> }>
}): Promise<void> {
  await run(service.help, async () => {
    const config = loadConfig()
    const log = createLog(config.LOG_LEVEL, service.name)
    const port = config.METRICS_PORT ?? service.metrics_port
    const part = await service.start(config, log)
    const operations = await serveOperations({ host: config.METRICS_HOST, port }, part.ready)
    log.info({ url: operations.url }, '/metrics and /readyz listen')
    return {
      log,
      async close() {
        await part.close()
        await operations.close()
      },
    }
  })
}

// Shared by all services: `/readyz` and `/metrics`, and the start.
import { createServer, type Server } from 'node:http'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import type { AddressInfo } from 'node:net'
import { ConfigError, loadConfig, requireVariables, queueConfig, type Config } from './config.ts'
import { describeSecretFiles, describeVariables } from './config/help.ts'
import { rereadSecrets, type CheckNewSecret } from './config/reread.ts'
import type { ProcessName } from './config/row.ts'
import { unavailability, type Sql } from './db.ts'
import type { ProcessFacts } from './heartbeat.ts'
import { HEALTH_PATH } from './health.ts'
import { assertMigrated } from './migrate.ts'
import { asPrometheusFormat, contentTypeOf, registry, wantsOpenMetrics } from './metrics.ts'
import { createLog, type Log } from './log.ts'
import { run, type StartedProcess, type Stoppable } from './run.ts'
import { isStopping } from './stopping.ts'
import { checkDatabase, checkAddresses, listenAddresses, portError, type ListenAddress } from './startup.ts'
import { sharedLogDescriptor, isSupervised } from './supervised.ts'
import { startTracing } from './tracing.ts'
import { problemOfBuild } from './version.ts'

/** Returns the `/readyz` facts of a process that is ready; rejects while it is not. */
export type ReadinessCheck = () => Promise<Record<string, unknown>>

/**
 * A part that runs as its own process. `url`: its listening address. `checkNewSecret`: the rules of this service for
 * new values of secrets. `shutdown_timeout_ms`: the time in which it closes, by default `SHUTDOWN_TIMEOUT_MS`.
 */
export type Service = Stoppable & {
  ready: ReadinessCheck
  url?: string
  checkNewSecret?: CheckNewSecret
  shutdown_timeout_ms?: number
}

/** The shutdown delay in production. */
export const PRODUCTION_SHUTDOWN_DELAY_S = 5

/**
 * Serves `/metrics`, `/readyz` and `/healthz` on a separate address. `/readyz` is 503 while the process stops. Default
 * of `readMetrics`: the metrics of this process. Throws ConfigError if the address cannot be used.
 */
export async function serveOperations(
  address: ListenAddress,
  ready: ReadinessCheck,
  readMetrics: () => Promise<string> = () => registry.metrics(),
): Promise<Stoppable & { url: string }> {
  const server = createServer((request, response) => {
    const { method = 'GET', url = '/', headers } = request
    void answer(method, url.replace(/\?.*/, ''), headers.accept).then(({ status, type, body, headers }) =>
      response
        .writeHead(status, { 'content-type': type, 'content-length': Buffer.byteLength(body), ...headers })
        .end(body),
    )
  })

  async function answer(method: string, url: string, accept?: string): Promise<OperationsAnswer> {
    if (!PATHS.includes(url)) return text(404, 'not found')
    if (method !== 'GET' && method !== 'HEAD')
      return { ...text(405, 'only GET and HEAD are answered'), headers: { allow: 'GET, HEAD' } }
    if (url === '/metrics') {
      const text = await readMetrics()
      const body = wantsOpenMetrics(accept) ? text : asPrometheusFormat(text)
      return { status: 200, type: contentTypeOf(body), body }
    }
    if (url === HEALTH_PATH) return json(200, { status: 'ok' })
    if (isStopping()) return json(503, { status: 'not ready', reason: 'stopping' })
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

const PATHS = ['/metrics', '/readyz', HEALTH_PATH]

type OperationsAnswer = { status: number; type: string; body: string; headers?: Record<string, string> }

function json(status: number, body: unknown): OperationsAnswer {
  return { status, type: 'application/json', body: `${JSON.stringify(body)}\n` }
}

function text(status: number, line: string): OperationsAnswer {
  return { status, type: 'text/plain', body: `${line}\n` }
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

type ServiceName = 'api' | 'webhooks' | 'worker' | 'dashboard'
type StartService = (config: Config, log: Log) => Promise<Service>

/** Runs a service as its own process. */
export async function runService(name: ServiceName, about: string, start: StartService): Promise<void> {
  await run(helpOf(`sluice ${name}: ${about}`, name), async () => {
    // The supervisor has already warned about `.env`.
    const config = loadConfig(process.env, isSupervised() ? () => {} : undefined)
    return await startService(name, config, start)
  })
}

/** Starts a service after checking its configuration, ports and database. Throws ConfigError if one is unusable. */
export async function startService(
  name: ServiceName,
  config: Config,
  start: StartService,
): Promise<StartedProcess> {
  requireVariables(config, name)
  queueConfig(config)
  const { metrics, ...own } = listenAddresses(config, name)
  await checkAddresses(name === 'worker' ? [metrics] : [own[name], metrics])
  const log = createLog(config.LOG_LEVEL, name, sharedLogDescriptor())
  const old_build = problemOfBuild()
  if (old_build?.is_other === true) throw new ConfigError(old_build.text)
  if (old_build !== undefined) log.warn(old_build.text)
  await checkDatabase(config, name, { warn: (text) => log.warn(text) })
  const tracing = await startTracing(config, name, (facts, text) => log.warn(facts, text))
  const service = await start(config, log)
  const operations = await serveOperations(metrics, service.ready)
  log.info({ url: operations.url }, '/metrics and /readyz listen')
  return {
    log,
    addresses: { url: service.url, operations_url: operations.url },
    reread: () => reportReread(config, log, service.checkNewSecret),
    shutdown_timeout_ms: service.shutdown_timeout_ms,
    // A worker has no callers: it stops claiming jobs at once.
    ...(name !== 'worker' && { drain: () => drain(config, log) }),
    async close() {
      await service.close()
      await operations.close()
      await tracing.close()
    },
  }
}

/** Resolves when the shutdown delay has passed. `default_s`: the delay if the configuration has none. */
export async function drain(
  { SHUTDOWN_DELAY_S: configured_s, NODE_ENV }: Config,
  log: Log,
  default_s = NODE_ENV === 'production' ? PRODUCTION_SHUTDOWN_DELAY_S : 0,
): Promise<void> {
  const delay_s = configured_s ?? default_s
  if (delay_s === 0) return
  log.info({ delay_s }, 'not ready: serving until the shutdown delay has passed')
  await sleep(delay_s * 1000)
}

/** Reads the secrets in files again, and logs the names of those that have changed. */
async function reportReread(
  config: Config,
  log: Log,
  check: CheckNewSecret = async () => null,
): Promise<void> {
  if (Object.keys(config.secret_files).length === 0)
    return log.warn('SIGHUP: no secret is in a file, so there is nothing to read again')
  const { changed, need_restart, problems } = await rereadSecrets(config, check)
  for (const problem of problems) log.error(`${problem} The previous value stays in use.`)
  if (need_restart.length > 0)
    log.warn(
      { secrets: need_restart },
      'secrets have changed that this process reads only when it starts: restart it',
    )
  const outcome = changed.length > 0 ? 'new secrets are in use' : 'no secret has a new value to use'
  if (problems.length === 0) log.info({ changed }, outcome)
  else
    log.warn({ changed }, `${outcome}; ${problems.length} ${problems.length === 1 ? 'was' : 'were'} refused`)
}

type ReportingDatabase = { assertCurrent: () => void; reportProcess: (process: ProcessFacts) => void }

/**
 * Creates a started service. The service is ready while its database is ready and `database` is the one in use, and
 * `/readyz` shows `facts`. Its heartbeat shows the service in the operators' list of processes. Closing the service
 * disposes of `cleanup`, the last added first.
 */
export function createService(
  cleanup: AsyncDisposableStack,
  { sql, database }: { sql: Sql; database: ReportingDatabase },
  process: ProcessFacts,
  facts: Record<string, unknown> = {},
): Service {
  database.reportProcess(process)
  return {
    async ready() {
      await assertMigrated(sql, process.name)
      database.assertCurrent()
      return facts
    },
    async close() {
      await cleanup.disposeAsync()
    },
  }
}

/**
 * The text of `--help`: the purpose of the process, where its configuration comes from, and every variable that it
 * reads.
 */
export function helpOf(about: string, name: ProcessName): string {
  const source = `Configuration is the environment and a file .env in this folder.\n${describeSecretFiles(name)}`
  return `${about}\n\n${source}\n\n${describeVariables(name)}`
}

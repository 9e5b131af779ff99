// A deployment of real processes for crash tests: each part by itself, to be killed, frozen and started again.
import { freePort } from '#start/ports.ts'
import { createClient, type Client } from './client.ts'
import { createEnvironment, createKey, HOST, type Environment } from './environment.ts'
import { PARTS, type PartName } from './parts.ts'
import { startProcess, type Process } from './process.ts'
import { asUser } from './users.ts'

export type Deployment = Pick<Environment, 'env' | 'sql' | 'redis' | 'provider'> & {
  /** Speaks for the deployment's tenant, with every scope; the API need not run. */
  client: Client
  tenant_id: string
  /** Speaks to the webhooks host, if it was started, without a key. */
  webhooks: Client
  /** Each process may be given variables of its own. They are killed when the deployment closes. */
  startApi(env?: Record<string, string>): Promise<Process>
  startWorker(env?: Record<string, string>): Promise<Process>
  /** What all processes of ours have written so far, also those that ended. */
  output(): string
  /** Kills the APIs and workers that still run. */
  killAll(): Promise<void>
  /** Kills the workers that still run. */
  killWorkers(): Promise<void>
  close(): Promise<void>
}

export type DeploymentOptions = {
  queue: 'redis' | 'postgres'
  /** A PostgreSQL of the test's own; else the suite's. The deployment takes a new database there. */
  server_url?: string
  /** Starts the webhooks host, to which the providers send their notifications. */
  webhooks?: boolean
  /** Whether the Redis runs from the beginning. */
  redis_up?: boolean
  env?: Record<string, string>
}

/** Makes database, Redis, providers and, if asked for, the webhooks host; the test starts APIs and workers. */
export async function createDeployment({
  queue,
  server_url,
  webhooks = false,
  redis_up = true,
  env: more = {},
}: DeploymentOptions): Promise<Deployment> {
  await using ends = new AsyncDisposableStack()
  const api_port = await freePort(HOST)
  const environment = ends.use(
    await createEnvironment({
      queue,
      server_url,
      redis_up,
      notifications: webhooks,
      env: { API_PORT: String(api_port), ...more },
    }),
  )
  const { env, sql, redis, provider } = environment
  if (webhooks) env['WEBHOOKS_URL'] = `http://${HOST}:${env['WEBHOOKS_PORT']}`
  const running: Record<PartName, Process[]> = { api: [], webhooks: [], worker: [], dashboard: [] }
  const all = () => Object.values(running).flat()
  const kill = async (processes: Process[]) => void (await Promise.all(processes.map((one) => one.end())))
  ends.defer(() => kill(all()))
  async function start(name: PartName, own: Record<string, string> = {}): Promise<Process> {
    const { file, ready } = PARTS[name]
    const started = await startProcess(file, { env: asUser(name, { ...env, ...own }), ready })
    running[name].push(started)
    return started
  }
  if (webhooks) await start('webhooks')
  const { tenant_id, secret } = await createKey(sql, 'acme')
  const kept = ends.move()
  return {
    env,
    sql,
    redis,
    provider,
    client: createClient(`http://${HOST}:${api_port}`, secret),
    tenant_id,
    webhooks: createClient(env['WEBHOOKS_URL'] ?? '', ''),
    startApi: (own) => start('api', own),
    startWorker: (own) => start('worker', own),
    output: () =>
      all()
        .map((one) => one.output())
        .join('\n'),
    killAll: () => kill([...running.api, ...running.worker]),
    killWorkers: () => kill(running.worker),
    close: () => kept.disposeAsync(),
  }
}

// A deployment of real processes for crash tests. Each process can be killed, frozen and restarted.
import { freePort } from '#start/ports.ts'
import { createClient, type Client } from './client.ts'
import { createEnvironment, createKey, HOST, runInRelease, type Environment } from './environment.ts'
import { PARTS, type PartName } from './parts.ts'
import { startProcess, type Process } from './process.ts'
import { asUser } from './users.ts'

export type Deployment = Pick<Environment, 'env' | 'sql' | 'redis' | 'provider'> & {
  /** A client of the deployment's tenant with all scopes. The API need not be running. */
  client: Client
  tenant_id: string
  /** A client of the webhooks host, without an API key. */
  webhooks: Client
  /**
   * Starts an API, with additional variables, from this release or by default from that of the deployment. The process
   * is killed when the deployment closes.
   */
  startApi(env?: Record<string, string>, release?: { path: string }): Promise<Process>
  startWorker(env?: Record<string, string>, release?: { path: string }): Promise<Process>
  /** The output of all processes so far, including processes that have ended. */
  output(): string
  /** Kills the running APIs and workers. */
  killAll(): Promise<void>
  /** Kills the running workers. */
  killWorkers(): Promise<void>
  close(): Promise<void>
}

export type DeploymentOptions = {
  queue: 'redis' | 'postgres'
  /** A separate PostgreSQL server. Default: the suite's server. The deployment creates a database on the server. */
  server_url?: string
  /** Starts the webhooks host, which receives the providers' notifications. */
  webhooks?: boolean
  /** Whether Redis runs when the deployment starts. */
  redis_up?: boolean
  /** The release that migrates the database and creates the key, and that is started. Default: these sources. */
  release?: { path: string }
  env?: Record<string, string>
}

/**
 * Starts a database, Redis, the providers and, if requested, the webhooks host. The test itself starts APIs and
 * workers.
 */
export async function createDeployment({
  queue,
  server_url,
  webhooks = false,
  redis_up = true,
  release,
  env: extra_env = {},
}: DeploymentOptions): Promise<Deployment> {
  await using cleanup = new AsyncDisposableStack()
  const api_port = await freePort(HOST)
  const environment = cleanup.use(
    await createEnvironment({
      queue,
      server_url,
      redis_up,
      release,
      notifications: webhooks,
      env: { API_PORT: String(api_port), ...extra_env },
    }),
  )
  const { env, sql, redis, provider } = environment
  if (webhooks) env['WEBHOOKS_URL'] = `http://${HOST}:${env['WEBHOOKS_PORT']}`
  const running: Record<PartName, Process[]> = { api: [], webhooks: [], worker: [], dashboard: [] }
  const all = () => Object.values(running).flat()
  const kill = async (processes: Process[]) => void (await Promise.all(processes.map((one) => one.end())))
  cleanup.defer(() => kill(all()))
  async function start(name: PartName, own: Record<string, string> = {}, of = release): Promise<Process> {
    const { file, ready } = PARTS[name]
    const options = { env: asUser(name, { ...env, ...own }), ready, ...(of && { root: of.path }) }
    const started = await startProcess(file, options)
    running[name].push(started)
    return started
  }
  if (webhooks) await start('webhooks')
  const { tenant_id, secret } = release
    ? await createKeyIn(release, env['DATABASE_URL']!)
    : await createKey(sql, 'acme')
  const disposables = cleanup.move()
  return {
    env,
    sql,
    redis,
    provider,
    client: createClient(`http://${HOST}:${api_port}`, secret),
    tenant_id,
    webhooks: createClient(env['WEBHOOKS_URL'] ?? '', ''),
    startApi: (own, of) => start('api', own, of),
    startWorker: (own, of) => start('worker', own, of),
    output: () =>
      all()
        .map((one) => one.output())
        .join('\n'),
    killAll: () => kill([...running.api, ...running.worker]),
    killWorkers: () => kill(running.worker),
    close: () => disposables.disposeAsync(),
  }
}

/** Creates a key with all scopes with the command of a release, because the tables of releases differ. */
async function createKeyIn(
  release: { path: string },
  database_url: string,
): Promise<{ tenant_id: string; secret: string }> {
  const args = ['create', '--tenant', 'acme', '--scopes', 'all']
  const output = await runInRelease(release, 'keys', args, database_url)
  const [, tenant_id, secret] = /^Key \S+ of acme \((\S+)\).*\s+(\S+)\s*$/.exec(output) ?? []
  return { tenant_id: tenant_id!, secret: secret! }
}

// `npm start`: runs all parts as child processes, with embedded servers and emulators for everything that is not
// configured.
import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { ConfigError, loadConfig, queueConfig, type Config } from '#core/config.ts'
import { requiredVariables } from '#core/config/readers.ts'
import { databaseError } from '#core/db.ts'
import { createLog, type Log } from '#core/log.ts'
import { migrate } from '#core/migrate.ts'
import { run, printStatus, writeToConsole, type StartedProcess } from '#core/run.ts'
import { drain, helpOf, serveOperations } from '#core/service.ts'
import { checkAddresses, listenAddresses } from '#core/startup.ts'
import { areasOf } from '#domain/areas.ts'
import { areaNotes, banner } from './banner.ts'
import { lockFolder, unusable, type LockedFolder } from './data-dir.ts'
import { ensureDemo, type Demo } from './demo.ts'
import { emulatorAddresses, emulatorVariables, providerNotes, type EmulatorListener } from './emulators.ts'
import { openOwnFile, readOwnFile, writeOwnFile } from './files.ts'
import { createServerFolder } from './folders.ts'
import { metricsOf, readinessOf } from './operations.ts'
import { buildStalePages } from './pages.ts'
import { chooseAddresses, type PartAddresses } from './addresses.ts'
import { startPostgres } from './postgres.ts'
import { networkNotes, programsOf } from './programs.ts'
import { startRedis } from './redis.ts'
import { loadSecrets } from './secrets.ts'
import { superviseServer } from './servers.ts'
import { createProgress, secondsSince, type StartStep } from './steps.ts'
import { supervise, type SupervisedPart } from './supervisor.ts'
import { createTerminalWriter } from './terminal.ts'

const DEMO_CONTACT = 'ops@shop.example'

/** The context that the steps of the start share. `cleanup` stops everything that was started, in reverse order. */
type Start = {
  config: Config
  data_dir: string
  log: Log
  /** Reports to the log and the terminal that a part or a server died or is back. */
  notify: (line: string) => void
  /** Prints a line of a part on the terminal. */
  print: (line: string) => void
  cleanup: AsyncDisposableStack
  step: StartStep
  /** Lines of the banner. */
  notes: string[]
}

/** Starts everything. `close` stops everything in order and finishes work in progress. */
export async function startAll(provided: Config): Promise<StartedProcess> {
  refuseInProduction(provided)
  const data_dir = resolve(provided.DATA_DIR)
  const folder = await lockFolder(data_dir)
  const [log_file, dev_file] = [join(data_dir, 'sluice.log'), join(data_dir, 'dev.json')]
  try {
    await using cleanup = new AsyncDisposableStack()
    cleanup.defer(folder.release)
    const { api, webhooks, dashboard, metrics } = listenAddresses(provided)
    const emulators = emulatorAddresses(provided).map(([, address]) => address)
    await checkAddresses([api, webhooks, dashboard, ...emulators, metrics])
    const server_folder =
      provided.DATABASE_URL === undefined ? await createServerFolder(join(data_dir, 'postgres')) : null
    const existing_database =
      server_folder !== null && existsSync(server_folder.data) ? server_folder.folder : null
    const secrets = loadSecrets(data_dir, existing_database)
    // An unsafe file is refused now, not when everything has started.
    readOwnFile(dev_file)
    // The file is open until this process exits. The parts append to the file themselves, so no line is lost if this
    // process is killed.
    const log_descriptor = openOwnFile(log_file, 'append')
    const log = createLog(provided.LOG_LEVEL, 'start', log_descriptor)
    const write = (text: string) => writeToConsole(text, process.stdout)
    write(`Starting Sluice in ${data_dir}\n`)
    const began_at = performance.now()
    const { step, endLine } = createProgress(write)
    const addresses = await chooseAddresses(provided)
    const urlOf = (name: EmulatorListener) => addresses.emulators.get(name)!.url
    const areas = areasOf({ ...provided, ...emulatorVariables(provided, urlOf) })
    const config: Config = { ...provided }
    config.ENCRYPTION_KEY ??= secrets.encryption_key
    config.ADDRESS_KEY ??= secrets.address_key
    config.WEBHOOKS_URL ??= addresses.webhooks.url
    const notify = (line: string) => {
      log.info(line)
      endLine()
      printStatus(line)
    }
    const print = (line: string) => {
      endLine()
      printStatus(line, process.stdout)
    }
    const start: Start = { config, data_dir, log, notify, print, cleanup, step, notes: [] }
    const { notes } = start
    void buildStalePages(log, cleanup)
    await startServers(start)
    const DATABASE_URL = config.DATABASE_URL!
    await step('Migrations', () => migrateAll(config, DATABASE_URL, log))
    // A contact is set only with the SMTP emulator, whose inbox receives all email.
    const contact = addresses.emulators.has('smtp') ? DEMO_CONTACT : null
    const demo = await step('Demo tenant, API keys and user', () =>
      ensureDemo(DATABASE_URL, data_dir, secrets, contact),
    )

    warnOfStripeSecret(start, provided, addresses)
    config.STRIPE_WEBHOOK_SECRET ??= secrets.stripe_webhook_secret
    config.EMAIL_WEBHOOK_SECRET ??= secrets.email_webhook_secret
    const services = await step('API, webhooks host, worker, dashboard, emulators', () =>
      startParts(start, addresses, { log_descriptor, onStart: folder.record }),
    )
    const readMetrics = () => metricsOf(services)
    const operations = await serveOperations(metrics, () => readinessOf(services), readMetrics)
    cleanup.defer(() => operations.close())

    notes.push(
      ...providerNotes(provided, urlOf),
      ...areaNotes(areas),
      ...networkNotes(provided),
      `Log          ${log_file} (warnings also here)`,
    )
    const started = devFileOf(config, addresses, { metrics_url: operations.url, demo })
    writeOwnFile(dev_file, `${JSON.stringify(started, null, 2)}\n`)
    const urls = { api_url: addresses.api.url, webhooks_url: addresses.webhooks.url }
    const text = banner({ ...started, ...urls }, notes, areas.deployed, join(provided.DATA_DIR, 'dev.json'))
    write(`Started in ${secondsSince(began_at)}\n${text}`)
    const started_parts = cleanup.move()
    const close = async () => {
      const stopping_at = performance.now()
      print('Stopping')
      await started_parts.disposeAsync()
      print(`Stopped after ${secondsSince(stopping_at)}.`)
    }
    return {
      log,
      close,
      drain: () => drain(provided, log, 0),
      reread: async () => services.forEach((service) => service.signal('SIGHUP')),
    }
  } catch (error) {
    throw unusable(error, data_dir)
  }
}

/** Starts PostgreSQL and Redis if they are not configured, and sets their URLs in the configuration. */
async function startServers({ config, data_dir, log, notify, cleanup, step, notes }: Start): Promise<void> {
  if (config.DATABASE_URL === undefined) {
    const postgres = await step('PostgreSQL', () =>
      startPostgres({
        data_dir: join(data_dir, 'postgres'),
        // Each autovacuum run is a new process. A run every three seconds (the default of `startPostgres`) would cost
        // more than the rest of an idle PostgreSQL.
        settings: { autovacuum_naptime: '15s' },
        log: (line) => log.info(line),
      }),
    )
    const restart = () => postgres.restart('immediate')
    cleanup.defer(superviseServer('PostgreSQL', { ...postgres, restart }, notify).end)
    config.DATABASE_URL = postgres.url
    notes.push(`PostgreSQL   embedded, 127.0.0.1:${postgres.port}, data in ${postgres.folder}`)
  } else notes.push('PostgreSQL   yours (DATABASE_URL)')

  if (config.QUEUE === 'postgres')
    return void notes.push('Queue        BullMQ on PostgreSQL (QUEUE=postgres)')
  if (config.REDIS_URL !== undefined)
    return void notes.push('Queue        BullMQ on Redis, yours (REDIS_URL)')
  const redis = await step('Redis', () =>
    startRedis({ data_dir: join(data_dir, 'redis'), log: (line) => log.info(line) }),
  )
  if (redis !== null) {
    cleanup.defer(superviseServer('Redis', redis, notify).end)
    config.REDIS_URL = redis.url
    notes.push(`Queue        BullMQ on Redis, started here: 127.0.0.1:${redis.port}, data in ${redis.folder}`)
  } else if (config.QUEUE === 'redis')
    throw new ConfigError(
      'QUEUE=redis, but REDIS_URL is not set and neither redis-server nor valkey-server is on the PATH. Set REDIS_URL, install one of the servers, or set QUEUE=postgres.',
    )
  else notes.push('Queue        BullMQ on PostgreSQL (no redis-server or valkey-server on the PATH)')
}

/** Migrates the database, and the queue if it is on PostgreSQL. */
async function migrateAll(config: Config, database_url: string, log: Log): Promise<void> {
  await migrate(database_url, (text) => log.info(text)).catch((error: unknown) => {
    throw databaseError(error, database_url)
  })
  if (config.REDIS_URL !== undefined && config.QUEUE !== 'postgres') return
  const { migrateQueue } = await import('#queue/queue.ts')
  const queue = queueConfig({ ...config, DATABASE_URL: database_url, QUEUE: 'postgres' })
  await migrateQueue(queue, (text) => log.info(text))
}

function warnOfStripeSecret({ log, notes }: Start, provided: Config, { emulators }: PartAddresses): void {
  if (emulators.has('stripe') || provided.STRIPE_WEBHOOK_SECRET !== undefined) return
  const warning =
    'STRIPE_WEBHOOK_SECRET is not set: webhooks of Stripe are refused, so changes of payments are found late. Set it to the signing secret of the endpoint.'
  log.warn(warning)
  notes.push(`WARNING      ${warning}`)
}

/** The content of `dev.json`: addresses, and the keys of the demo tenant in both modes. */
function devFileOf(
  config: Config,
  addresses: PartAddresses,
  { metrics_url, demo }: { metrics_url: string; demo: Demo },
) {
  const variables = emulatorVariables(config, (name) => addresses.emulators.get(name)!.url)
  return {
    api_url: config.API_URL ?? addresses.api.url,
    webhooks_url: config.WEBHOOKS_URL,
    metrics_url,
    api_key: demo.api_key,
    test_api_key: demo.test_api_key,
    tenant_id: demo.tenant_id,
    dashboard: { url: config.DASHBOARD_URL ?? addresses.dashboard.url, ...demo.login },
    database_url: config.DATABASE_URL,
    redis_url: config.REDIS_URL ?? null,
    emulators: Object.fromEntries(Array.from(addresses.emulators, ([name, { url }]) => [`${name}_url`, url])),
    webhook_secrets: { stripe: config.STRIPE_WEBHOOK_SECRET, email: config.EMAIL_WEBHOOK_SECRET },
    // Of the emulators only: real credentials are not published.
    provider_variables: variables,
    twilio: addresses.emulators.has('twilio')
      ? { account_sid: variables.TWILIO_ACCOUNT_SID, auth_token: variables.TWILIO_AUTH_TOKEN }
      : null,
  }
}

/**
 * Starts all parts at once. Resolves when all are ready, and returns the parts that serve `/readyz`. `cleanup` stops
 * all parts, one group after the other.
 */
async function startParts(
  { config, data_dir, notify, print, cleanup }: Start,
  addresses: PartAddresses,
  each: { log_descriptor: number; onStart: LockedFolder['record'] },
): Promise<SupervisedPart[]> {
  const options = {
    ...each,
    notify,
    onOutputLine: createTerminalWriter(print),
  }
  const groups = programsOf(config, addresses, data_dir).map((programs) =>
    programs.map((program) => supervise(program, options)),
  )
  cleanup.defer(async () => {
    for (const group of groups) await Promise.all(group.map((part) => part.end()))
  })
  const parts = groups.flat()
  const listening = await Promise.all(parts.map(({ ready }) => ready))
  return parts.filter((_, index) => listening[index]!.operations_url !== undefined)
}

function refuseInProduction(config: Config): void {
  if (config.NODE_ENV !== 'production' || config.ALLOW_EMULATORS) return
  const needed = [...requiredVariables('api', 'webhooks', 'worker', 'dashboard'), 'REDIS_URL' as const]
  const missing = needed.filter((name) => config[name] === undefined)
  if (missing.length === 0) return
  throw new ConfigError(
    `In production these must be set: ${missing.join(', ')}. To run embedded servers and emulators nevertheless: ALLOW_EMULATORS=true`,
  )
}

if (import.meta.main) {
  const about =
    'sluice start: runs the complete system, each part as a child process. Without configuration it embeds PostgreSQL, Redis (if it is on the PATH), and emulators of Stripe, Twilio, an SMTP server and an AI provider.'
  await run(helpOf(about, 'start'), () => startAll(loadConfig()))
}

// `npm start`: the whole system in one process, with embedded servers and emulators where nothing is
// configured.
import { randomBytes } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { z } from 'zod'
import { ConfigError, loadConfig, type Config } from '#core/config.ts'
import { neededBy } from '#core/config/variables.ts'
import { connectDatabase } from '#core/pool.ts'
import { databaseError } from '#core/db.ts'
import { createLog, type Log } from '#core/log.ts'
import { migrate } from '#core/migrate.ts'
import { helpOf, run, serveOperations, type Part } from '#core/service.ts'
import { checkAddresses, listenAddresses, portError } from '#core/startup.ts'
import { startApi } from '#api/main.ts'
import { createApiKey, findCredentials } from '#domain/api-keys.ts'
import { areaStates, SCOPES, type AreaStates } from '#domain/areas.ts'
import { ensureTenant } from '#domain/tenants.ts'
import { startStripeEmulator } from '#emulators/stripe/main.ts'
import { EVENT_TYPES } from '#providers/stripe/news.ts'
import { migrateQueue } from '#queue/queue.ts'
import { startWebhooks } from '#webhooks/main.ts'
import { startWorker } from '#workers/main.ts'
import { lockFolder, unusable } from './data-dir.ts'
import { startPostgres } from './postgres.ts'
import { startRedis } from './redis.ts'

const DEMO_TENANT = 'demo'

/** The secrets that were generated for this folder, kept for the next start. */
const secretsSchema = z.looseObject({
  api_key: z.string(),
  encryption_key: z.string(),
  stripe_webhook_secret: z.string(),
})
type Secrets = z.output<typeof secretsSchema>

/** Starts everything; `close` stops it in the opposite order and finishes work in flight. */
async function startAll(given: Config): Promise<Part & { log: Log }> {
  refuseInProduction(given)
  const areas = areaStates(given.DISABLED_AREAS)
  const data_dir = resolve(given.DATA_DIR)
  const folder = await lockFolder(data_dir)
  const log_file = join(data_dir, 'sluice.log')
  const notes: string[] = []
  try {
    await using ends = new AsyncDisposableStack()
    ends.defer(folder.release)
    const { api: api_place, webhooks: webhooks_place, emulator, metrics } = listenAddresses(given)
    await checkAddresses([api_place, webhooks_place, ...(emulates(given) ? [emulator] : []), metrics])
    const log = createLog(given.LOG_LEVEL, 'sluice', log_file)
    const secrets = await loadSecrets(data_dir)
    const config: Config = { ...given }
    config.ENCRYPTION_KEY ??= secrets.encryption_key
    if (config.API_PORT !== 0) config.API_URL ??= `http://${config.HOST}:${config.API_PORT}`

    if (config.DATABASE_URL === undefined) {
      const postgres = await startPostgres({
        data_dir: join(data_dir, 'postgres'),
        log: (line) => log.info(line),
      })
      ends.defer(() => postgres.stop())
      config.DATABASE_URL = postgres.url
      notes.push(`PostgreSQL   embedded, 127.0.0.1:${postgres.port}, data in ${postgres.folder}`)
    } else notes.push('PostgreSQL   yours (DATABASE_URL)')

    if (config.REDIS_URL === undefined && config.QUEUE !== 'postgres') {
      const redis = await startRedis({ data_dir: join(data_dir, 'redis'), log: (line) => log.info(line) })
      if (redis !== null) {
        ends.defer(() => redis.stop())
        config.REDIS_URL = redis.url
      } else if (config.QUEUE === 'redis')
        throw new ConfigError(
          'QUEUE=redis, but REDIS_URL is not set and neither redis-server nor valkey-server is on the PATH.',
        )
      notes.push(
        redis === null
          ? 'Queue        BullMQ on PostgreSQL (no redis-server or valkey-server on the PATH)'
          : `Queue        BullMQ on Redis, started here: 127.0.0.1:${redis.port}`,
      )
    } else
      notes.push(
        config.QUEUE === 'postgres'
          ? 'Queue        BullMQ on PostgreSQL (QUEUE=postgres)'
          : 'Queue        BullMQ on Redis, yours (REDIS_URL)',
      )

    const { DATABASE_URL } = config
    await migrate(DATABASE_URL, (text) => log.info(text)).catch((error: unknown) => {
      throw databaseError(error, DATABASE_URL)
    })
    if (config.REDIS_URL === undefined || config.QUEUE === 'postgres')
      await migrateQueue({ redis_url: null, database_url: config.DATABASE_URL })
    const demo = await seed(config, data_dir, secrets)

    if (!emulates(given) && given.STRIPE_WEBHOOK_SECRET === undefined) {
      const warning =
        'STRIPE_WEBHOOK_SECRET is not set: what Stripe sends is refused, and payments learn of it late. Set the signing secret of the endpoint.'
      log.warn(warning)
      notes.push(`WARNING      ${warning}`)
    }
    config.STRIPE_WEBHOOK_SECRET ??= secrets.stripe_webhook_secret
    const webhooks = await startWebhooks(config, log)
    ends.defer(() => webhooks.close())
    config.WEBHOOKS_URL ??= webhooks.url
    const stripe_url = await emulateStripe(config, data_dir, ends)
    notes.push(
      stripe_url === null
        ? 'Stripe       yours (STRIPE_SECRET_KEY)'
        : `Stripe       EMULATED at ${stripe_url} (no money moves; set STRIPE_SECRET_KEY for the real one)`,
    )

    const worker = await startWorker(config, log)
    ends.defer(() => worker.close())
    const api = await startApi(config, log)
    ends.defer(() => api.close())
    const operations = await serveOperations(metrics, api.ready)
    ends.defer(() => operations.close())

    notes.push(...areaNotes(areas), `Log          ${log_file} (warnings also here)`)
    const started = {
      api_url: config.API_URL ?? api.url,
      webhooks_url: config.WEBHOOKS_URL,
      metrics_url: operations.url,
      api_key: demo.api_key,
      tenant_id: demo.tenant_id,
      database_url: config.DATABASE_URL,
      redis_url: config.REDIS_URL ?? null,
      emulators: stripe_url === null ? {} : { stripe_url },
      webhook_secrets: { stripe: config.STRIPE_WEBHOOK_SECRET },
    }
    await writeFile(join(data_dir, 'dev.json'), `${JSON.stringify(started, null, 2)}\n`, { mode: 0o600 })
    process.stdout.write(
      banner(
        { ...started, api_url: api.url, webhooks_url: webhooks.url },
        notes,
        join(given.DATA_DIR, 'dev.json'),
      ),
    )
    const started_parts = ends.move()
    return { log, close: () => started_parts.disposeAsync() }
  } catch (error) {
    throw unusable(error, data_dir)
  }
}

/** The lines of the banner about areas. */
function areaNotes({ deployed, switched_off, not_deployed }: AreaStates): string[] {
  return [
    `Areas        ${deployed.join(', ') || 'none'}`,
    ...(switched_off.length > 0 ? [`             switched off: ${switched_off.join(', ')}`] : []),
    ...(not_deployed.length > 0 ? [`             not deployed: ${not_deployed.join(', ')}`] : []),
  ]
}

/** Whether the Stripe emulator is used: it is, unless a key or another server is configured. */
function emulates({ STRIPE_API_BASE, STRIPE_SECRET_KEY }: Config): boolean {
  return STRIPE_API_BASE === undefined && STRIPE_SECRET_KEY === undefined
}

function refuseInProduction(config: Config): void {
  if (config.NODE_ENV !== 'production' || config.ALLOW_EMULATORS) return
  const needed = [...neededBy('api', 'webhooks', 'worker'), 'REDIS_URL' as const]
  const missing = needed.filter((name) => config[name] === undefined)
  if (missing.length === 0) return
  throw new ConfigError(
    `In production these must be set: ${missing.join(', ')}. For embedded servers and emulators all the same: ALLOW_EMULATORS=true`,
  )
}

async function emulateStripe(
  config: Config,
  data_dir: string,
  ends: AsyncDisposableStack,
): Promise<string | null> {
  if (!emulates(config)) {
    config.STRIPE_SECRET_KEY ??= 'sk_test_unset'
    return null
  }
  config.STRIPE_SECRET_KEY = 'sk_test_emulator'
  const emulator = await startStripeEmulator({
    host: '127.0.0.1',
    port: config.EMULATOR_PORT,
    api_key: config.STRIPE_SECRET_KEY,
    webhook_url: `${config.WEBHOOKS_URL}/stripe`,
    webhook_secret: config.STRIPE_WEBHOOK_SECRET!.split(',')[0]!,
    ...(config.EMULATOR_EVENTS === 'needed' && { webhook_events: EVENT_TYPES }),
    data_dir: join(data_dir, 'stripe'),
  }).catch((error: unknown) => {
    throw portError(error, listenAddresses(config).emulator)
  })
  ends.defer(() => emulator.close())
  config.STRIPE_API_BASE = emulator.url
  return emulator.url
}

// The demo tenant and a key with every scope; the same key at every start of this folder.
async function seed(
  config: Config,
  data_dir: string,
  secrets: Secrets,
): Promise<{ tenant_id: string; api_key: string }> {
  const sql = connectDatabase(config.DATABASE_URL!, { max: 1, application_name: 'sluice-start' })
  try {
    const tenant = await ensureTenant(sql, DEMO_TENANT, 'Demo')
    if ((await findCredentials(sql, secrets.api_key)) === undefined) {
      const key = await createApiKey(sql, tenant, { name: 'Demo', scopes: [...SCOPES], expires_at: null })
      secrets.api_key = key.secret
      await saveSecrets(data_dir, secrets)
    }
    return { tenant_id: tenant.id, api_key: secrets.api_key }
  } finally {
    await sql.end()
  }
}

/** Makes new secrets only where there are none: what is sealed with a lost key is lost too. */
async function loadSecrets(data_dir: string): Promise<Secrets> {
  const path = join(data_dir, 'secrets.json')
  const kept = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error
    return undefined
  })
  if (kept === undefined) {
    const secrets = {
      api_key: '',
      encryption_key: randomBytes(32).toString('base64'),
      stripe_webhook_secret: `whsec_${randomBytes(24).toString('hex')}`,
    }
    await saveSecrets(data_dir, secrets)
    return secrets
  }
  try {
    return secretsSchema.parse(JSON.parse(kept))
  } catch {
    throw new ConfigError(
      `DATA_DIR: ${path} cannot be read. Restore it, or remove the folder ${data_dir}: what is sealed with its key is lost then.`,
    )
  }
}

async function saveSecrets(data_dir: string, secrets: Secrets): Promise<void> {
  await writeFile(join(data_dir, 'secrets.json'), `${JSON.stringify(secrets, null, 2)}\n`, { mode: 0o600 })
}

function banner(
  {
    api_url,
    webhooks_url,
    metrics_url,
    api_key,
  }: { api_url: string; webhooks_url: string; metrics_url: string; api_key: string },
  notes: string[],
  dev_file: string,
): string {
  return `
Sluice runs.

  API          ${api_url}
  Guides       ${api_url}/docs/guides
  Reference    ${api_url}/docs
  Webhooks     ${webhooks_url}
  Metrics      ${metrics_url}/metrics
  ${notes.join('\n  ')}

Create a customer:

  curl -s ${api_url}/v1/customers -H 'Authorization: Bearer ${api_key}' \\
    -H 'Content-Type: application/json' -d '{"idempotency_key":"customer-1","email":"ada@example.com","name":"Ada"}'

Create and capture a payment:

  id=$(curl -s ${api_url}/v1/payments -H 'Authorization: Bearer ${api_key}' -H 'Content-Type: application/json' \\
    -d '{"idempotency_key":"payment-1","amount_minor":1000,"currency":"USD","method":"card","payment_method":"pm_card_visa"}' \\
    | sed 's/.*"id":"\\([^"]*\\)".*/\\1/')
  curl -s -X POST ${api_url}/v1/payments/$id/capture -H 'Authorization: Bearer ${api_key}'

All of this is in ${dev_file} too. Ctrl-C stops everything.
`
}

if (import.meta.main) {
  const about =
    'sluice start: the whole system in one process. What is not configured is embedded: PostgreSQL, Redis (if there is one on the PATH), a Stripe emulator.'
  await run(helpOf(about, 'start'), () => startAll(loadConfig()))
}

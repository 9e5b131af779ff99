// Checks built images with podman: `node deploy/check/image.ts IMAGE EMULATORS_IMAGE`. Every command of the image runs
// without rights, then a payment is authorized and captured by containers of the API, the webhooks host and a worker,
// each with the user of its role. PostgreSQL and Redis run on this machine, the Stripe emulator in a container.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { freePort } from '#start/ports.ts'
import { startPostgres } from '#start/postgres.ts'
import { startRedis } from '#start/redis.ts'
import { createTemporaryFolder } from '#test/folders.ts'
import { CREATE_USERS, writeLogins, type Login } from './logins.ts'

const HOST = '127.0.0.1'
const READY_LIMIT_MS = 60_000
/** No rights, as in compose.yaml. The limits of this machine may be below the defaults of podman. */
const WITHOUT_RIGHTS = [
  '--runtime=runc',
  '--network=host',
  '--read-only',
  '--read-only-tmpfs=false',
  '--user=10001',
  '--cap-drop=all',
  '--security-opt=no-new-privileges',
  '--ulimit=nofile=20000:20000',
  '--ulimit=nproc=1024:1024',
]

const [image = '', emulators_image = ''] = process.argv.slice(2)
assert(emulators_image !== '', 'Name the images: node deploy/check/image.ts IMAGE EMULATORS_IMAGE')
const run = promisify(execFile)

async function podman(...args: string[]): Promise<string> {
  const { stdout } = await run('podman', args, { timeout: 120_000 })
  return stdout
}

/** Runs a command of the image to its end, and returns its output. */
async function runInImage(args: string[], env: Record<string, string> = {}): Promise<string> {
  return await podman('run', '--rm', ...WITHOUT_RIGHTS, ...environment(env), image, ...args)
}

const environment = (env: Record<string, string>) =>
  Object.entries(env).flatMap(([name, value]) => ['--env', `${name}=${value}`])

/** Starts a process of the image; resolves when the container is healthy. */
async function startProcess(name: string, env: Record<string, string>): Promise<string> {
  const began_at = performance.now()
  const options = [...WITHOUT_RIGHTS, ...environment(env)]
  const id = (await podman('run', '--detach', '--name', `check-${name}`, ...options, image, name)).trim()
  while (!(await isHealthy(id))) {
    assert(performance.now() - began_at < READY_LIMIT_MS, `${name} is not ready:\n${await logOf(id)}`)
    await sleep(200)
  }
  console.log(`${name}: ready after ${((performance.now() - began_at) / 1000).toFixed(1)} s`)
  return id
}

/** Starts the Stripe emulator of the image for demos; resolves when it answers. */
async function startStripe(url: string, webhook_url: string, secret: string): Promise<void> {
  const began_at = performance.now()
  const options = [...WITHOUT_RIGHTS, ...environment({ STRIPE_WEBHOOK_SECRET: secret })]
  const settings = [
    `--port=${new URL(url).port}`,
    '--api-key=sk_test_emulator',
    `--webhook-url=${webhook_url}`,
  ]
  const program = ['src/emulators/stripe/main.ts', ...settings]
  await podman('run', '--detach', '--name=check-stripe', ...options, emulators_image, ...program)
  while (
    !(await fetch(url).then(
      ({ ok }) => ok,
      () => false,
    ))
  ) {
    assert(performance.now() - began_at < READY_LIMIT_MS, `Stripe: ${await logOf('check-stripe')}`)
    await sleep(200)
  }
}

/** Runs the health check of the image once. */
async function isHealthy(id: string): Promise<boolean> {
  return await podman('healthcheck', 'run', id).then(
    () => true,
    () => false,
  )
}

async function logOf(id: string): Promise<string> {
  const { stdout, stderr } = await run('podman', ['logs', '--tail', '20', id])
  return stdout + stderr
}

/** Creates the users of an installation as an operator does, with secrets in `folder`; returns the URL of each. */
async function createLogins(superuser_url: string, folder: string): Promise<Record<Login, string>> {
  const urls = await writeLogins(folder, superuser_url, () => randomBytes(24).toString('hex'))
  await run(CREATE_USERS, [folder, superuser_url])
  return Object.fromEntries(urls) as Record<Login, string>
}

async function checkContents(): Promise<void> {
  const inside = async (code: string) =>
    (await podman('run', '--rm', ...WITHOUT_RIGHTS, '--entrypoint=node', image, '-e', code)).trim()
  const { components } = JSON.parse(
    await inside("process.stdout.write(require('fs').readFileSync('sbom.cdx.json', 'utf8'))"),
  ) as { components: { name: string }[] }
  assert(
    components.some(({ name }) => name === 'fastify'),
    'the SBOM does not name fastify',
  )
  const { packages } = JSON.parse(await readFile('package-lock.json', 'utf8')) as {
    packages: Record<string, { dev?: boolean }>
  }
  const development = Object.keys(packages).filter((path) => packages[path]!.dev === true)
  const paths = ['src/start', 'src/emulators', ...development]
  const present = await inside(
    `console.log(${JSON.stringify(paths)}.filter(require('fs').existsSync).join(' '))`,
  )
  assert.equal(present, '', `the image contains what no production process needs: ${present}`)
  const help = await runInImage(['--help'])
  const names = /: (.*)\n$/.exec(help)![1]!.split(', ')
  assert(names.includes('api') && names.includes('migrate') && !names.includes('start'), help)
  for (const name of names)
    assert((await runInImage([name, '--help'])).length > 100, `${name} --help prints nothing`)
  console.log(`commands: ${names.join(', ')}; ${components.length} packages in the SBOM`)
}

/** Takes a payment through the API, and returns its statuses. */
async function takePayment(api: string, key: string): Promise<string[]> {
  const post = async (path: string, body: object) => {
    const response = await fetch(`${api}${path}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', prefer: 'wait=30' },
      body: JSON.stringify(body),
    })
    const answer = (await response.json()) as { id: string; status: string }
    assert(response.ok, `${path} answered ${response.status}: ${JSON.stringify(answer)}`)
    return answer
  }
  const card = { currency: 'USD', method: 'card', payment_method: 'pm_card_visa' }
  const payment = await post('/v1/payments', { idempotency_key: 'check', amount_minor: 1000, ...card })
  const captured = await post(`/v1/payments/${payment.id}/capture`, {})
  return [payment.status, captured.status]
}

async function checkPayment(): Promise<void> {
  await using cleanup = new AsyncDisposableStack()
  const folder = await createTemporaryFolder('image')
  cleanup.defer(folder.remove)
  const database = await startPostgres({ data_dir: `${folder.path}/postgres` })
  cleanup.defer(database.stop)
  const redis = await startRedis({ data_dir: null })
  assert(redis !== null, 'no Redis server')
  cleanup.defer(redis.stop)
  const [api_port, webhooks_port, dashboard_port, stripe_port, ...metrics_ports] = await Promise.all(
    Array.from({ length: 8 }, () => freePort(HOST)),
  )
  const secret = `whsec_${randomBytes(24).toString('hex')}`
  cleanup.defer(async () => void (await podman('rm', '--all', '--force')))
  const stripe_url = `http://${HOST}:${stripe_port}`
  await startStripe(stripe_url, `http://${HOST}:${webhooks_port}/stripe`, secret)

  const logins = await createLogins(database.url, folder.path)
  const owner = { DATABASE_URL: logins.owner }
  console.log((await runInImage(['migrate'], owner)).trim())
  const key = /^ {2}(\S+)$/m.exec(
    await runInImage(['keys', 'create', '--tenant', 'acme', '--scopes', 'all'], owner),
  )
  assert(key !== null, 'keys printed no key')

  const common = {
    HOST,
    METRICS_HOST: HOST,
    REDIS_URL: redis.url,
    ENCRYPTION_KEY: randomBytes(32).toString('base64'),
    ADDRESS_KEY: randomBytes(32).toString('base64'),
    API_PORT: String(api_port),
    WEBHOOKS_PORT: String(webhooks_port),
    DASHBOARD_PORT: String(dashboard_port),
  }
  const own = {
    api: {},
    webhooks: { STRIPE_WEBHOOK_SECRET: secret },
    worker: { STRIPE_SECRET_KEY: 'sk_test_emulator', STRIPE_API_BASE: stripe_url },
    dashboard: {},
  }
  const names = ['api', 'webhooks', 'worker', 'dashboard'] as const
  const containers = await Promise.all(
    names.map((name, nth) => {
      const env = {
        ...common,
        ...own[name],
        DATABASE_URL: logins[name],
        METRICS_PORT: String(metrics_ports[nth]),
      }
      return startProcess(name, env)
    }),
  )
  assert.deepEqual(await takePayment(`http://${HOST}:${api_port}`, key[1]!), ['authorized', 'captured'])
  console.log('a payment was authorized and captured')

  await podman('stop', '--time=60', ...containers)
  for (const [nth, id] of containers.entries()) {
    const state = (await podman('inspect', '--format={{.State.ExitCode}}', id)).trim()
    assert.equal(state, '0', `${names[nth]} did not stop in order:\n${await logOf(id)}`)
  }
  console.log('SIGTERM stopped all containers in order')
}

await checkContents()
await checkPayment()

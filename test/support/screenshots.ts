// `npm run screenshots` takes screenshots of the dashboard with demo data for the README, and stores them in
// docs/images.
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, readFile, stat, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { parseArgs } from 'node:util'
import type { Browser as Chromium, Page } from 'playwright-core'
import { buildPages } from './built.ts'
import { launchChromium } from './chromium.ts'
import { createClient, type Client } from './client.ts'
import { fillDemo } from './demo-data.ts'
import { createTemporaryFolder } from './folders.ts'
import { handleOf } from './providers.ts'
import { listening } from './receiver.ts'
import { smallerPng } from './smaller-png.ts'
import { PORTS } from './start.ts'

const ROOT = join(import.meta.dirname, '../..')
const IMAGES = join(ROOT, 'docs/images')
const DESK = { width: 1280, height: 760 }
const PHONE = { width: 390, height: 844 }
/** Maximum size of an image. A screenshot has double resolution if it fits within this size. */
const MAX_IMAGE_BYTES = 150_000
/** The maximum time to wait for the roll-ups. */
const ROLLUP_TIMEOUT_MS = 100_000

type Picture = { name: string; path: string; dark?: boolean; phone?: boolean; full_page?: boolean }
type Running = {
  api_url: string
  api_key: string
  dashboard: { url: string; email: string; password: string }
  emulators: { stripe_url: string }
}

const HELP = `npm run screenshots: takes the pictures of the dashboard for the README, with demo data, and replaces those in docs/images.
It starts a complete system on free ports in a temporary folder, and needs Chromium. It takes some minutes.

  -h, --help  prints this text`

const { values } = parseArgs({ options: { help: { type: 'boolean', short: 'h' } } })
if (values.help === true) {
  process.stdout.write(`${HELP}\n`)
  process.exit(0)
}

// A closed pipe must not end this process before it has stopped the system that it started.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {})
await using cleanup = new AsyncDisposableStack()
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
  process.once(signal, () => void cleanup.disposeAsync().finally(() => process.exit(130)))
await buildPages()
const running = await startSystem(cleanup)
const client = createClient(running.api_url, running.api_key)
const pictures = await fill(client, cleanup)
const chromium = await launchChromium()
cleanup.defer(() => chromium.close())
await mkdir(IMAGES, { recursive: true })
const cookies = await signIn(chromium)
for (const picture of pictures) process.stdout.write(`${await takeScreenshot(picture)}\n`)

/** Starts the system on free ports, in a temporary folder. */
async function startSystem(stack: AsyncDisposableStack): Promise<Running> {
  const folder = await createTemporaryFolder('screenshots')
  stack.defer(folder.remove)
  const child = spawn(process.execPath, ['src/start/main.ts'], {
    cwd: ROOT,
    env: { ...process.env, ...PORTS, DATA_DIR: folder.path, LOG_LEVEL: 'warn' },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  stack.defer(() => stop(child))
  // After an uncaught error the stack is not disposed.
  process.once('exit', () => child.kill('SIGTERM'))
  for await (const line of createInterface({ input: child.stdout })) if (line.includes('dev.json')) break
  child.stdout.resume()
  return JSON.parse(await readFile(join(folder.path, 'dev.json'), 'utf8')) as Running
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  child.kill('SIGTERM')
  await once(child, 'exit')
}

/** Fills the shop with demo data. Returns the pages of which screenshots are taken. */
async function fill(shop: Client, stack: AsyncDisposableStack): Promise<Picture[]> {
  const receiver = createServer((request, response) =>
    request
      .resume()
      .on('end', () =>
        response.writeHead(request.url === '/orders' ? 204 : 503).end('The database is away.'),
      ),
  )
  const url = `http://127.0.0.1:${await listening(receiver)}`
  stack.defer(() => {
    receiver.close()
    receiver.closeAllConnections()
  })
  await fillDemo(shop, {
    stripe: handleOf('stripe', { url: running.emulators.stripe_url }),
    receivers: { well: `${url}/orders`, failing: `${url}/reports` },
  })
  const first = async (path: string) => (await shop.get(path)).body[0]
  const refunded = (await shop.get('/v1/payments?status=captured&limit=100')).body.find(
    (payment: any) => payment.amount_refunded_minor > 0 && payment.currency === 'USD',
  )
  const payment = `/payments/${refunded.id}`
  const endpoint = `/webhooks/${(await first('/v1/webhook_endpoints')).id}`
  return [
    { name: 'overview', path: '/' },
    { name: 'overview-dark', path: '/', dark: true },
    { name: 'payments', path: '/payments' },
    { name: 'payment', path: payment, full_page: true },
    { name: 'payment-phone', path: payment, phone: true },
    { name: 'queues-dark', path: '/ops/queues', dark: true },
    { name: 'job', path: '/ops/jobs?state=all&name=payment.capture' },
    { name: 'webhook-endpoint', path: endpoint },
    { name: 'api-keys', path: '/settings/api-keys' },
  ]
}

async function signIn(browser: Chromium) {
  const { url, email, password } = running.dashboard
  const context = await browser.newContext()
  const page = await context.newPage()
  await page.goto(url)
  await page.getByLabel('Email').fill(email)
  await page.getByLabel('Password', { exact: true }).fill(password)
  await page.getByRole('button', { name: 'Sign in', exact: true }).click()
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
  await waitForRollups(page)
  const state = await context.cookies()
  await context.close()
  return state
}

/** Waits until the queues' figures include the demo data, which roll-ups count from time to time. */
async function waitForRollups(page: Page): Promise<void> {
  const isCounted = async () => {
    const { queues }: any = await page.evaluate(async () => await (await fetch('/api/ops/queues')).json())
    return queues.some(({ out_by_minute }: { out_by_minute: number[] }) =>
      out_by_minute.some((jobs) => jobs > 0),
    )
  }
  const end = Date.now() + ROLLUP_TIMEOUT_MS
  while (!(await isCounted()) && Date.now() < end) await page.waitForTimeout(1_000)
}

/** Takes the screenshot in the highest resolution that fits. Returns a line about the image. */
async function takeScreenshot(picture: Picture): Promise<string> {
  const file = join(IMAGES, `${picture.name}.png`)
  for (const scale of [2, 1]) {
    await shoot(picture, file, scale)
    const { size } = await stat(file)
    if (size <= MAX_IMAGE_BYTES || scale === 1) return `${picture.name}.png ${Math.round(size / 1000)} kB`
  }
  return ''
}

async function shoot(
  { path, dark, phone, full_page = false }: Picture,
  file: string,
  scale: number,
): Promise<void> {
  const context = await chromium.newContext({
    viewport: phone === true ? PHONE : DESK,
    deviceScaleFactor: scale,
    colorScheme: dark === true ? 'dark' : 'light',
    reducedMotion: 'reduce',
    locale: 'en-US',
  })
  await context.addCookies(cookies)
  const page = await context.newPage()
  await page.goto(`${running.dashboard.url}${path}`)
  await settled(page)
  if (path.startsWith('/ops/jobs')) {
    await page.getByRole('main').getByRole('row').nth(1).getByRole('link').first().click()
    await page.getByRole('list', { name: 'Attempts' }).waitFor()
    await settled(page)
  }
  // Chromium draws no scrollbar here, so the space for a scrollbar would be an empty strip.
  await page.evaluate("document.documentElement.style.scrollbarGutter = 'auto'")
  await writeFile(file, smallerPng(await page.screenshot({ fullPage: full_page })))
  await context.close()
}

async function settled(page: Page): Promise<void> {
  await page.getByRole('heading', { level: 1 }).waitFor()
  await page.waitForLoadState('networkidle', { timeout: 3_000 }).catch(() => {})
  await page.waitForFunction(
    () => (globalThis as any).document.querySelector('main [aria-busy=true]') === null,
  )
}

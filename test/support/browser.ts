// The dashboard in a real browser. Each test file has one browser; errors in a page fail the test of the page.
import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import type { Browser as Chromium, BrowserContext, Page } from 'playwright-core'
import { expect, onTestFinished } from 'vitest'
import type { MemberRole } from '#domain/people/role.ts'
import { buildPages } from './built.ts'
import { launchChromium } from './chromium.ts'
import { createPerson, PASSWORD, signIn, type Person } from './people.ts'
import { createWorld, type World, type WorldOptions } from './world.ts'

/** For `beforeAll`: a missing browser is installed first, which takes some minutes. */
export const BROWSER_TIMEOUT_MS = 600_000

const DESK = { width: 1440, height: 900 }
export const PHONE = { width: 390, height: 844 }

export type Dashboard = {
  world: World
  /** The host is `localhost`, where passkeys work without TLS. */
  url: string
  chromium: Chromium
  /**
   * Opens a page in its own context, which is closed at the end of the test. `as`: the user who is signed in.
   * `expects`: messages that the browser must report, as `<kind>: <text> <address>`; any other message fails the test.
   */
  open(path: string, options?: OpenOptions): Promise<Page>
  /** A member of the first tenant. Each call with the same role returns the same person. */
  person(role: MemberRole | 'operator'): Promise<Person>
  close(): Promise<void>
}

type OpenOptions = {
  as?: Person | MemberRole | 'operator'
  expects?: RegExp[]
  viewport?: { width: number; height: number }
  scheme?: 'light' | 'dark'
  /** Origins that the page may call besides the dashboard, e.g. `http://127.0.0.1:1234`. */
  others?: string[]
}

/** Starts a world with the dashboard, and a browser. */
export async function createDashboard(options: WorldOptions = {}): Promise<Dashboard> {
  await using cleanup = new AsyncDisposableStack()
  await buildPages()
  const [world, chromium] = await Promise.all([
    createWorld({ parts: ['api', 'webhooks', 'worker', 'dashboard'], ...options }),
    launchChromium(),
  ])
  cleanup.defer(() => world.close())
  cleanup.defer(() => chromium.close())
  const url = world.dashboard_url.replace('127.0.0.1', 'localhost')
  const people = new Map<string, Promise<Person>>()
  const sessions = new Map<string, ReturnType<typeof cookiesOf>>()

  const person: Dashboard['person'] = async (role) => {
    const created =
      people.get(role) ??
      createPerson(world, role === 'operator' ? { role: 'owner', is_operator: true } : { role })
    people.set(role, created)
    return await created
  }

  const open: Dashboard['open'] = async (
    path,
    { as, expects = [], viewport = DESK, scheme = 'light', others = [] } = {},
  ) => {
    const context = await chromium.newContext({
      viewport,
      colorScheme: scheme,
      // Without reduced motion the checks would read elements in the middle of an animation.
      reducedMotion: 'reduce',
      locale: 'en-US',
    })
    context.setDefaultTimeout(60_000)
    onTestFinished(() => context.close())
    if (as !== undefined) {
      const user = typeof as === 'string' ? await person(as) : as
      const cookies = sessions.get(user.email) ?? cookiesOf(url, user)
      sessions.set(user.email, cookies)
      await context.addCookies(await cookies)
    }
    const page = await context.newPage()
    await watch(context, page, { hosts: [url, ...others], expects })
    await page.goto(path.startsWith('http') ? path : `${url}${path}`)
    return page
  }
  const disposables = cleanup.move()
  return { world, url, chromium, open, person, close: () => disposables.disposeAsync() }
}

/** Signs in with the form of the page. */
export async function signInByPage(
  page: Page,
  { email }: { email: string },
  password = PASSWORD,
): Promise<void> {
  await page.getByLabel('Email').fill(email)
  await page.getByLabel('Password', { exact: true }).fill(password)
  await page.getByRole('button', { name: 'Sign in', exact: true }).click()
}

/** Sends a request from the page, as a script in the page would. */
export async function fetchInPage(
  page: Page,
  method: string,
  path: string,
  body?: unknown,
): Promise<{ status: number; body: any }> {
  return await page.evaluate(
    async ([method, path, body]) => {
      const response = await fetch(path, {
        method,
        ...(body !== undefined && {
          body: JSON.stringify(body),
          headers: { 'content-type': 'application/json' },
        }),
      })
      const text = await response.text()
      return {
        status: response.status,
        body: text.startsWith('{') || text.startsWith('[') ? JSON.parse(text) : text,
      }
    },
    [method, path, body] as const,
  )
}

let axe: Promise<string> | undefined

/** Slow rules whose findings are never serious. */
const SKIPPED_RULES = [
  'region',
  'landmark-unique',
  'heading-order',
  'page-has-heading-one',
  'aria-allowed-role',
]

/**
 * Fails for serious findings of axe-core. `only`: runs this rule alone; `without`: skips these rules. The test
 * continues and fails at its end.
 */
export async function checkAccessible(
  page: Page,
  { only, without = [] }: { only?: string; without?: string[] } = {},
): Promise<void> {
  const rules = Object.fromEntries([...SKIPPED_RULES, ...without].map((rule) => [rule, { enabled: false }]))
  await runAxe(page, only === undefined ? { rules } : { runOnly: [only] })
}

/**
 * Fails for texts with too little contrast. Skips the styles in `seen`, and adds the styles that it checks. The test
 * continues and fails at its end.
 */
export async function checkContrast(page: Page, seen: Set<string>): Promise<void> {
  const styles = await page.evaluate(() => {
    const { document, getComputedStyle } = globalThis as any
    const backgrounds = new Map<unknown, string>([[null, '']])
    function backgroundOf(element: any): string {
      const { backgroundColor, backgroundImage, opacity } = getComputedStyle(element)
      const own = `${backgroundColor} ${backgroundImage} ${opacity}`
      const all =
        backgrounds.get(element) ??
        `${backgrounds.get(element.parentElement) ?? backgroundOf(element.parentElement)}/${own}`
      backgrounds.set(element, all)
      return all
    }
    const found: Record<string, unknown[]> = {}
    for (const element of document.querySelectorAll('body *')) {
      const has_text =
        element.matches('input, select, textarea') ||
        [...element.childNodes].some(({ nodeType, data }) => nodeType === 3 && data.trim() !== '')
      if (!has_text || !element.checkVisibility({ visibilityProperty: true })) continue
      const { color, fontSize, fontWeight, textShadow } = getComputedStyle(element)
      const disabled = element.closest(':disabled, [aria-disabled=true], [inert]') !== null
      const style = [color, fontSize, fontWeight, textShadow, disabled, backgroundOf(element)].join(' ')
      const alike = (found[style] ??= [])
      // Up to three elements of a style are checked, because another element may cover one of them.
      if (alike.length < 3) alike.push(element)
    }
    Object.assign(globalThis, { texts: found })
    return Object.keys(found)
  })
  const unchecked = styles.filter((style) => !seen.has(style))
  unchecked.forEach((style) => seen.add(style))
  if (unchecked.length > 0) await runAxe(page, { runOnly: ['color-contrast'] }, unchecked)
}

/** `styles`: checks only the texts with these styles, as `checkContrast` finds them. */
async function runAxe(page: Page, options: object, styles?: string[]): Promise<void> {
  axe ??= readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
  if (!(await page.evaluate(() => 'axe' in globalThis))) await page.evaluate(await axe)
  const found = await page.evaluate(
    async ([options, styles]) => {
      const { axe, document, texts } = globalThis as any
      const include = styles?.flatMap((style) => texts[style]) ?? [document]
      const { violations } = await axe.run(
        { include },
        { resultTypes: ['violations'], preload: false, ...options },
      )
      return violations
        .filter(({ impact }: any) => impact === 'serious' || impact === 'critical')
        .flatMap(({ id, nodes }: any) =>
          nodes.map(({ html, any: [reason] }: any) => `${id}: ${html} ${reason?.message ?? ''}`),
        )
    },
    [options, styles] as const,
  )
  expect.soft(found, `at ${page.url()}`).toEqual([])
}

/** Fails if the page is wider than its window. The test continues and fails at its end. */
export async function checkPageWidth(page: Page): Promise<void> {
  const { needs, has } = await page.evaluate(() => {
    const { scrollWidth, clientWidth } = (globalThis as any).document.documentElement
    return { needs: scrollWidth as number, has: clientWidth as number }
  })
  expect.soft(needs, `width of ${page.url()}`).toBeLessThanOrEqual(has)
}

async function cookiesOf(url: string, person: Person) {
  const { cookies } = await signIn(url, person)
  return Array.from(cookies, ([name, value]) => ({
    name,
    value,
    url,
    httpOnly: true,
    sameSite: 'Strict' as const,
  }))
}

/** Collects the errors of the page. If there are any, the test fails at its end. */
async function watch(
  context: BrowserContext,
  page: Page,
  { hosts, expects }: { hosts: string[]; expects: RegExp[] },
): Promise<void> {
  const problems: string[] = []
  await context.addInitScript(() =>
    (globalThis as any).document.addEventListener('securitypolicyviolation', (event: any) =>
      console.error('refused by the policy', event.violatedDirective, event.blockedURI),
    ),
  )
  context.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning')
      problems.push(`console: ${message.text()} ${message.location().url}`)
  })
  context.on('weberror', (error) => problems.push(`error: ${String(error.error().stack)}`))
  context.on('requestfailed', (request) => {
    const reason = request.failure()?.errorText
    // The browser cancels such requests when the user leaves the page.
    if (reason !== 'net::ERR_ABORTED') problems.push(`failed: ${reason} ${request.url()}`)
  })
  context.on('request', (request) => {
    const { protocol, origin } = new URL(request.url())
    if (protocol.startsWith('http') && !hosts.includes(origin)) problems.push(`other host: ${request.url()}`)
  })
  page.on('dialog', (dialog) => {
    problems.push(`dialog: ${dialog.message()}`)
    void dialog.dismiss()
  })
  onTestFinished(() => {
    const unexpected = problems.filter((problem) => !expects.some((pattern) => pattern.test(problem)))
    const missing = expects.filter((pattern) => !problems.some((problem) => pattern.test(problem)))
    expect({ unexpected, missing }).toEqual({ unexpected: [], missing: [] })
  })
}

// The dashboard in a real browser: one for each file, whose pages are watched; what goes wrong in one fails its test.
import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import type { Browser as Chromium, BrowserContext, Page } from 'playwright-core'
import { expect, onTestFinished } from 'vitest'
import type { MemberRole } from '#domain/people/role.ts'
import { buildPages } from './built-pages.ts'
import { launchChromium } from './chromium.ts'
import { createPerson, PASSWORD, signIn, type Person } from './people.ts'
import { createWorld, type World, type WorldOptions } from './world.ts'

/** Of `beforeAll`: where it has to be installed first, the browser takes its time. */
export const BROWSER_TIMEOUT_MS = 600_000

const DESK = { width: 1440, height: 900 }
export const PHONE = { width: 390, height: 844 }

export type Dashboard = {
  world: World
  /** At `localhost`, where passkeys work without TLS. */
  url: string
  chromium: Chromium
  /**
   * A page in a context of its own, gone at the end of the test. `as`: who is signed in there. `expects`: what the
   * browser will complain of, as `<what>: <text> <address>`; it must, and of nothing else.
   */
  open(path: string, options?: OpenOptions): Promise<Page>
  /** Of the world's tenant; the same person each time for the same role. */
  person(role: MemberRole | 'operator'): Promise<Person>
  close(): Promise<void>
}

type OpenOptions = {
  as?: Person | MemberRole | 'operator'
  expects?: RegExp[]
  viewport?: { width: number; height: number }
  scheme?: 'light' | 'dark'
  /** Hosts beside the dashboard that it may ask, e.g. `http://127.0.0.1:1234`. */
  others?: string[]
}

/** A world with the dashboard, and a browser. */
export async function createDashboard(options: WorldOptions = {}): Promise<Dashboard> {
  await using ends = new AsyncDisposableStack()
  await buildPages()
  const [world, chromium] = await Promise.all([
    createWorld({ parts: ['api', 'webhooks', 'worker', 'dashboard'], ...options }),
    launchChromium(),
  ])
  ends.defer(() => world.close())
  ends.defer(() => chromium.close())
  const url = world.dashboard_url.replace('127.0.0.1', 'localhost')
  const people = new Map<string, Promise<Person>>()
  const sessions = new Map<string, ReturnType<typeof cookiesOf>>()

  const person: Dashboard['person'] = async (role) => {
    const made =
      people.get(role) ??
      createPerson(world, role === 'operator' ? { role: 'owner', is_operator: true } : { role })
    people.set(role, made)
    return await made
  }

  const open: Dashboard['open'] = async (
    path,
    { as, expects = [], viewport = DESK, scheme = 'light', others = [] } = {},
  ) => {
    const context = await chromium.newContext({
      viewport,
      colorScheme: scheme,
      // What moves is read while it moves.
      reducedMotion: 'reduce',
      locale: 'en-US',
    })
    context.setDefaultTimeout(20_000)
    onTestFinished(() => context.close())
    if (as !== undefined) {
      const who = typeof as === 'string' ? await person(as) : as
      const cookies = sessions.get(who.email) ?? cookiesOf(url, who)
      sessions.set(who.email, cookies)
      await context.addCookies(await cookies)
    }
    const page = await context.newPage()
    await watch(context, page, { hosts: [url, ...others], expects })
    await page.goto(path.startsWith('http') ? path : `${url}${path}`)
    return page
  }
  const kept = ends.move()
  return { world, url, chromium, open, person, close: () => kept.disposeAsync() }
}

/** Signs in by the page, as people do. */
export async function signInByPage(
  page: Page,
  { email }: { email: string },
  password = PASSWORD,
): Promise<void> {
  await page.getByLabel('Email').fill(email)
  await page.getByLabel('Password', { exact: true }).fill(password)
  await page.getByRole('button', { name: 'Sign in', exact: true }).click()
}

/** Asks in the page's context, as a script in it could. */
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

/** Rules that find nothing serious, and take their time. */
const NEVER_SERIOUS = [
  'region',
  'landmark-unique',
  'heading-order',
  'page-has-heading-one',
  'aria-allowed-role',
]

/** Nothing serious that axe-core finds; `only`: one rule, `without`: all but this one. The test goes on, and fails at its end. */
export async function checkAccessible(
  page: Page,
  { only, without = [] }: { only?: string; without?: string[] } = {},
): Promise<void> {
  const rules = Object.fromEntries([...NEVER_SERIOUS, ...without].map((rule) => [rule, { enabled: false }]))
  await runAxe(page, only === undefined ? { rules } : { runOnly: [only] })
}

/**
 * Texts stand out from what is behind them. `seen`: how those looked that were checked before; what looks as one of these
 * is not checked again. The test goes on, and fails at its end.
 */
export async function checkContrast(page: Page, seen: Set<string>): Promise<void> {
  const looks = await page.evaluate(() => {
    const { document, getComputedStyle } = globalThis as any
    const known = new Map<unknown, string>([[null, '']])
    function behind(element: any): string {
      const { backgroundColor, backgroundImage, opacity } = getComputedStyle(element)
      const own = `${backgroundColor} ${backgroundImage} ${opacity}`
      const all =
        known.get(element) ?? `${known.get(element.parentElement) ?? behind(element.parentElement)}/${own}`
      known.set(element, all)
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
      const look = [color, fontSize, fontWeight, textShadow, disabled, behind(element)].join(' ')
      const alike = (found[look] ??= [])
      // One may be behind something else.
      if (alike.length < 3) alike.push(element)
    }
    Object.assign(globalThis, { texts: found })
    return Object.keys(found)
  })
  const unseen = looks.filter((look) => !seen.has(look))
  unseen.forEach((look) => seen.add(look))
  if (unseen.length > 0) await runAxe(page, { runOnly: ['color-contrast'] }, unseen)
}

/** `looks`: only of the texts that `checkContrast` has found to look so. */
async function runAxe(page: Page, options: object, looks?: string[]): Promise<void> {
  axe ??= readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
  if (!(await page.evaluate(() => 'axe' in globalThis))) await page.evaluate(await axe)
  const found = await page.evaluate(
    async ([options, looks]) => {
      const { axe, document, texts } = globalThis as any
      const include = looks?.flatMap((look) => texts[look]) ?? [document]
      const { violations } = await axe.run(
        { include },
        { resultTypes: ['violations'], preload: false, ...options },
      )
      return violations
        .filter(({ impact }: any) => impact === 'serious' || impact === 'critical')
        .flatMap(({ id, nodes }: any) =>
          nodes.map(({ html, any: [why] }: any) => `${id}: ${html} ${why?.message ?? ''}`),
        )
    },
    [options, looks] as const,
  )
  expect.soft(found, `at ${page.url()}`).toEqual([])
}

/** The page is not wider than its window. The test goes on, and fails at its end. */
export async function checkFitsWidth(page: Page): Promise<void> {
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

/** Collects what goes wrong, and fails the test at its end. */
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
    const why = request.failure()?.errorText
    // What a page has asked when it is left.
    if (why !== 'net::ERR_ABORTED') problems.push(`failed: ${why} ${request.url()}`)
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

// Renders pages in Chromium until nothing is loading.
import { launchChromium } from '#test/chromium.ts'
import { median } from '../../compare.ts'

/** The number of times that each page is opened. The first opening also loads the script of the page. */
const OPENINGS = 5

/** Milliseconds from navigation to a complete page; median by address. */
export async function openPages(
  { dashboard_url, cookie }: { dashboard_url: string; cookie: string },
  addresses: string[],
): Promise<Map<string, number>> {
  const chromium = await launchChromium()
  try {
    const context = await chromium.newContext()
    const [name, value] = splitOnce(cookie)
    await context.addCookies([{ name, value, url: dashboard_url }])
    const page = await context.newPage()
    const found = new Map<string, number>()
    for (const address of addresses) {
      const times: number[] = []
      for (let round = 0; round < OPENINGS; round++) {
        const started_at = performance.now()
        await page.goto(`${dashboard_url}${address}`, { waitUntil: 'commit' })
        await page.getByRole('main').getByRole('heading', { level: 1 }).waitFor()
        await page.waitForFunction(
          // The types of this folder lack those of a page.
          () =>
            (
              globalThis as unknown as { document: { querySelector(selector: string): unknown } }
            ).document.querySelector('main [aria-busy=true], main .skeleton') === null,
        )
        times.push(performance.now() - started_at)
      }
      found.set(address, median(times))
    }
    return found
  } finally {
    await chromium.close()
  }
}

function splitOnce(cookie: string): [string, string] {
  const [name, ...value] = cookie.split(';')[0]!.split('=')
  return [name!, value.join('=')]
}

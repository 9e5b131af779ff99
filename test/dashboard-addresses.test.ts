// Tests the addresses of pages in both modes.
import { expect, test, vi } from 'vitest'

const ID = '0198f6f0-1234-7000-8000-123456789abc'

/** The module for a page at this path. */
async function modeAt(pathname: string): Promise<typeof import('../src/dashboard/web/mode.ts')> {
  vi.stubGlobal('location', { pathname })
  vi.resetModules()
  return await import('../src/dashboard/web/mode.ts')
}

test('the path of an address selects the mode', async () => {
  const paths = ['/test', '/test/payments', '/', '/testing', '/payments/test']
  const modes: string[] = []
  for (const path of paths) modes.push((await modeAt(path)).MODE)
  expect(modes).toEqual(['test', 'test', 'live', 'live', 'live'])
})

test('the switch leads from a list to the same list, and from a row to its list', async () => {
  const { counterpartOf } = await modeAt('/')
  const counterparts = {
    '/': '/',
    '/wallet/top-ups': '/wallet/top-ups',
    [`/payments/${ID}`]: '/payments',
    [`/wallet/top-ups/${ID}`]: '/wallet/top-ups',
    [`/messages/templates/${ID}`]: '/messages/templates',
    [`/webhooks/deliveries/${ID}`]: '/webhooks',
    [`/sandbox/messages/${ID}`]: '/',
    '/sandbox/clock': '/',
    [`/ops/jobs/${ID}`]: '/',
  }
  const found = Object.keys(counterparts).map((path) => [path, counterpartOf(path)])
  expect(Object.fromEntries(found)).toEqual(counterparts)
})

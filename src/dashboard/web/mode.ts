// The mode of this page, live or test. The address carries it: pages of test mode are below /test. The other mode is
// another document, so no data of one mode are left in the other.

// The cast: the type check of the tests includes this file without the types of a browser.
const { location } = globalThis as unknown as {
  location: { pathname: string; assign(address: string): void }
}
const TEST_PATH = '/test'
/** The id of a row, and what follows it. */
const FROM_ID = /\/[0-9a-f]{8}-[0-9a-f-]{27}(?:\/.*)?$/i
/** Rows whose list is part of another page. */
const PARENTS: Record<string, string> = { '/webhooks/deliveries': '/webhooks' }
/** Pages that one mode lacks. */
const PAGES_OF_ONE_MODE = /^\/(?:ops|sandbox)(?:\/|$)/

export type Mode = 'live' | 'test'

/** The header in which a page of test mode names its mode. */
export const MODE_HEADER = 'x-sluice-mode'

export const MODE: Mode = `${location.pathname}/`.startsWith(`${TEST_PATH}/`) ? 'test' : 'live'
/** The base path of the router. */
export const BASE_PATH = MODE === 'test' ? TEST_PATH : '/'

/** The address of a path of the router, in the mode of this page or in another one. */
export function addressOf(path: string, mode = MODE): string {
  return mode === 'test' ? `${TEST_PATH}${path}` : path
}

/** The path of the router for the path of an address in the mode of this page. */
export function pathOf(address: string): string {
  return MODE === 'test' ? address.slice(TEST_PATH.length) || '/' : address
}

/** Loads a page in this mode, as another document. */
export function openInMode(mode: Mode, path: string): void {
  location.assign(addressOf(path, mode))
}

/** The page that shows in the other mode what this page shows: for a row, the list, because each row has one mode. */
export function counterpartOf(path: string): string {
  if (PAGES_OF_ONE_MODE.test(path)) return '/'
  const list = path.replace(FROM_ID, '')
  return PARENTS[list] ?? list
}

// The addresses that the parts of `npm start` listen on.
import type { Config } from '#core/config.ts'
import { listenAddresses } from '#core/startup.ts'
import { emulatorAddresses, type EmulatorListener } from './emulators.ts'
import { freePort } from './ports.ts'

export type PartAddresses = {
  api: PartAddress
  webhooks: PartAddress
  dashboard: PartAddress
  /** The running emulators. */
  emulators: ReadonlyMap<EmulatorListener, PartAddress>
}
type PartAddress = { port: number; url: string }

/**
 * Chooses the address of each part. Port 0 becomes a free port here, so a restarted part keeps its address, and all
 * parts can start at once although they call each other.
 */
export async function chooseAddresses(config: Config): Promise<PartAddresses> {
  const { api, webhooks, dashboard } = listenAddresses(config)
  const used = new Set<number>()
  async function chooseAddress(
    { host, port }: { host: string; port: number },
    { scheme = 'http://', name = reachableHost(host) }: { scheme?: string; name?: string } = {},
  ): Promise<PartAddress> {
    let chosen = port
    if (port === 0)
      do chosen = await freePort(host)
      while (used.has(chosen))
    used.add(chosen)
    return { port: chosen, url: `${scheme}${name}:${chosen}` }
  }
  const addresses = {
    api: await chooseAddress(api),
    webhooks: await chooseAddress(webhooks),
    // Passkeys are bound to a host name: browsers accept no passkeys for an IP address.
    dashboard: await chooseAddress(dashboard, isLocal(dashboard.host) ? { name: 'localhost' } : {}),
  }
  const emulators = new Map<EmulatorListener, PartAddress>()
  for (const [name, address, scheme] of emulatorAddresses(config))
    emulators.set(name, await chooseAddress(address, { scheme }))
  return { ...addresses, emulators }
}

/** Whether `localhost` reaches this host. */
function isLocal(host: string): boolean {
  return ['127.0.0.1', '0.0.0.0', '::', '::1', 'localhost'].includes(host)
}

/** The host for URLs by which this machine reaches a server that listens on `host`. */
function reachableHost(host: string): string {
  if (host === '0.0.0.0') return '127.0.0.1'
  if (host === '::') return '[::1]'
  return host.includes(':') ? `[${host}]` : host
}

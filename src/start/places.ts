// Where the parts of `npm start` listen.
import type { Config } from '#core/config.ts'
import { listenAddresses } from '#core/startup.ts'
import { emulatorAddresses, type EmulatorPlace } from './emulators.ts'
import { freePort } from './ports.ts'

export type PartPlaces = {
  api: PartPlace
  webhooks: PartPlace
  dashboard: PartPlace
  /** Those that are used. */
  emulators: ReadonlyMap<EmulatorPlace, PartPlace>
}
type PartPlace = { port: number; url: string }

/**
 * Where each part listens for as long as this start runs. Port 0 becomes a free one now: a part that is started again
 * has the same address, and all can start at once although they call each other.
 */
export async function choosePlaces(config: Config): Promise<PartPlaces> {
  const { api, webhooks, dashboard } = listenAddresses(config)
  const taken = new Set<number>()
  async function choose(
    { host, port }: { host: string; port: number },
    { scheme = 'http://', name = reachable(host) }: { scheme?: string; name?: string } = {},
  ): Promise<PartPlace> {
    let chosen = port
    if (port === 0)
      do chosen = await freePort(host)
      while (taken.has(chosen))
    taken.add(chosen)
    return { port: chosen, url: `${scheme}${name}:${chosen}` }
  }
  const places = {
    api: await choose(api),
    webhooks: await choose(webhooks),
    // Passkeys belong to a name: browsers take none for a number.
    dashboard: await choose(dashboard, isLocal(dashboard.host) ? { name: 'localhost' } : {}),
  }
  const emulators = new Map<EmulatorPlace, PartPlace>()
  for (const [name, address, scheme] of emulatorAddresses(config))
    emulators.set(name, await choose(address, { scheme }))
  return { ...places, emulators }
}

/** Whether it is reached here as `localhost`, too. */
function isLocal(host: string): boolean {
  return ['127.0.0.1', '0.0.0.0', '::', '::1', 'localhost'].includes(host)
}

/** The host of a URL by which this machine reaches what listens on `host`. */
function reachable(host: string): string {
  if (host === '0.0.0.0') return '127.0.0.1'
  if (host === '::') return '[::1]'
  return host.includes(':') ? `[${host}]` : host
}

// The `api` process: serves the API, its reference and its guides.
import type { Config } from '#core/config.ts'
import type { Log } from '#core/log.ts'
import { metrics } from '#core/metrics.ts'
import { runService, createService, type Service } from '#core/service.ts'
import { listenAt, listenAddresses } from '#core/startup.ts'
import { AREAS, AREA_NAMES, CHANNEL_CREDENTIALS } from '#domain/areas.ts'
import { buildApi } from './app.ts'
import { createAuthenticate } from './auth.ts'
import { openApiContext, endWaits } from './open.ts'

/** Starts the API with the servers of `config`. */
export async function startApi(config: Config, log: Log): Promise<Service & { url: string }> {
  await using ends = new AsyncDisposableStack()
  const context = await openApiContext(config, log, 'sluice-api', ends)
  const { areas, queue } = context
  const app = await buildApi(context, { authenticate: createAuthenticate(context) })
  ends.defer(() => app.close())
  ends.defer(() => endWaits(context))
  const url = await listenAt(app, listenAddresses(config).api)
  for (const area of AREA_NAMES) metrics.areas.set({ area }, areas.deployed.includes(area) ? 1 : 0)
  for (const area of areas.without_credentials) {
    const missing = AREAS[area].credentials?.filter((name) => config[name] === undefined)
    log.warn({ area, missing }, 'the area is not deployed: set the credentials of its provider')
  }
  for (const channel of areas.channels_without_credentials) {
    const missing = CHANNEL_CREDENTIALS[channel].filter((name) => config[name] === undefined)
    log.warn({ channel, missing }, 'no messages of the channel are sent: set the credentials of its provider')
  }
  log.info({ url, queue: queue.backend, areas }, 'the API listens')
  return { url, ...createService(ends.move(), context, { name: 'api' }, { areas }) }
}

if (import.meta.main) await runService('api', 'serves /v1, /docs and /openapi.json.', startApi)

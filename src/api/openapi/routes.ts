// The OpenAPI documents as they are served: `/openapi.json`, and that of the webhooks host.
import type { FastifyInstance } from 'fastify'
import type { Config } from '#core/config.ts'
import { listGuides } from '../guides/library.ts'
import { apiDocument } from './document.ts'
import type { DocumentedRoute } from './operation.ts'
import { webhooksDocument } from './webhooks-host.ts'

/**
 * Collects every route that is registered from now on and has a literal, and serves what they come to. `origin`: where
 * links lead.
 */
export function openapiRoutes(app: FastifyInstance, config: Config, origin: () => string): void {
  const routes: DocumentedRoute[] = []
  app.addHook('onRoute', ({ method, url, config: of }) => {
    if (of?.definition !== undefined && typeof method === 'string')
      routes.push({ method, path: url, definition: of.definition })
  })

  // Anybody may ask for them, so they are written once, and all answers share the bytes.
  const served = (path: string, document: () => unknown) => {
    let bytes: Buffer | undefined
    app.get(path, async (_request, reply) => {
      bytes ??= Buffer.from(JSON.stringify(await document()))
      return await reply.type('application/json; charset=utf-8').send(bytes)
    })
  }
  served('/openapi.json', async () => {
    // Whoever reads the reference under another name of this host may send requests only there.
    const server = config.API_URL ?? '/'
    return apiDocument(routes, { server, origin: origin(), guides: await listGuides() })
  })
  served('/openapi-webhooks.json', () => webhooksDocument(config))
}

// Serves the OpenAPI documents: `/openapi.json`, and `/openapi-webhooks.json` for the webhooks host.
import type { FastifyInstance } from 'fastify'
import type { Config } from '#core/config.ts'
import { listGuides } from '../guides/library.ts'
import { apiDocument } from './document.ts'
import type { DocumentedRoute } from './operation.ts'
import { webhooksDocument } from './webhooks-host.ts'

/**
 * Collects all routes with a definition that are registered after this call, and serves their document. `origin`: the
 * origin of links.
 */
export function openapiRoutes(app: FastifyInstance, config: Config, origin: () => string): void {
  const routes: DocumentedRoute[] = []
  app.addHook('onRoute', ({ method, url, config: of }) => {
    if (of?.definition !== undefined && typeof method === 'string')
      routes.push({ method, path: url, definition: of.definition })
  })

  // The documents are public, so each is created once, and all answers share its bytes.
  const served = (path: string, document: () => unknown) => {
    let bytes: Buffer | undefined
    app.get(path, async (_request, reply) => {
      bytes ??= Buffer.from(JSON.stringify(await document()))
      return await reply.type('application/json; charset=utf-8').send(bytes)
    })
  }
  served('/openapi.json', async () => {
    // `/` means the host name from which the reader loaded the reference: the content policy of the reference allows
    // requests to this name only.
    const server = config.API_URL ?? '/'
    return apiDocument(routes, { server, origin: origin(), guides: await listGuides() })
  })
  served('/openapi-webhooks.json', () => webhooksDocument(config))
}

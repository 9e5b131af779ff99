// The reference at `/docs`, loaded when somebody first looks: its package alone takes 40 MB of memory.
import helmet from '@fastify/helmet'
import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'

export function docsRoutes(app: FastifyInstance): void {
  let loaded: Promise<FastifyInstance> | undefined

  async function answer(request: FastifyRequest, reply: FastifyReply): Promise<unknown> {
    loaded ??= loadReference()
    const reference = await loaded
    const page = await reference.inject({ method: 'GET', url: request.url })
    if (page.statusCode === 404) return reply.callNotFound()
    return reply.code(page.statusCode).headers(page.headers).send(page.rawPayload)
  }

  app.get('/docs', answer)
  app.get('/docs/*', answer)
  app.addHook('onClose', async () => await (await loaded)?.close())
}

/** An application of its own, which listens nowhere: plug-ins cannot join one that is already answering. */
async function loadReference(): Promise<FastifyInstance> {
  const { default: scalar } = await import('@scalar/fastify-api-reference')
  const reference = fastify({ routerOptions: { ignoreTrailingSlash: false } })
  // Pages want all of helmet's headers; what answers JSON only needs to be taken for nothing else.
  await reference.register(helmet, { contentSecurityPolicy: false })
  await reference.register(scalar, {
    routePrefix: '/docs',
    configuration: {
      title: 'Sluice API',
      sources: [
        { url: '/openapi.json', title: 'Sluice API', slug: 'api', default: true },
        { url: '/openapi-webhooks.json', title: 'Webhooks host', slug: 'webhooks-host' },
      ],
      // Nothing is fetched from or sent to anywhere else.
      telemetry: false,
      withDefaultFonts: false,
      showDeveloperTools: 'never',
      hideClientButton: true,
      agent: { disabled: true },
      mcp: { disabled: true },
      authentication: { preferredSecurityScheme: 'api_key' },
    },
  })
  await reference.ready()
  return reference
}

// The reference at `/docs`, loaded when somebody first looks: its package alone takes 40 MB of memory.
import { createHash } from 'node:crypto'
import helmet from '@fastify/helmet'
import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'

export function docsRoutes(app: FastifyInstance): void {
  let loaded: Promise<FastifyInstance> | undefined

  async function answer(request: FastifyRequest, reply: FastifyReply): Promise<unknown> {
    loaded ??= loadReference()
    const reference = await loaded
    const page = await reference.inject({ method: 'GET', url: request.url })
    if (page.statusCode === 404) return reply.callNotFound()
    if (String(page.headers['content-type']).startsWith('text/html'))
      reply.header('content-security-policy', contentPolicy(page.payload))
    return reply.code(page.statusCode).headers(page.headers).send(page.rawPayload)
  }

  // Browsers ask for it by themselves.
  app.get('/favicon.ico', (_request, reply) => reply.code(204).send())
  app.get('/docs', answer)
  app.get('/docs/*', answer)
  app.addHook('onClose', async () => await (await loaded)?.close())
}

/** Allows the page to load from this host only, and to run no script but its own inline ones, by their hashes. */
function contentPolicy(page: string): string {
  const own = Array.from(
    page.matchAll(/<script(?![^>]* src=)[^>]*>([\s\S]*?)<\/script>/g),
    ([, script = '']) => {
      return `'sha256-${createHash('sha256').update(script).digest('base64')}'`
    },
  )
  return [
    "default-src 'none'",
    `script-src 'self' ${own.join(' ')}`,
    // The reference styles its elements as it goes.
    "style-src 'self' 'unsafe-inline'",
    "img-src 'self' data:",
    "font-src 'self' data:",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; ')
}

/** An application of its own, which listens nowhere: plug-ins cannot join one that is already answering. */
async function loadReference(): Promise<FastifyInstance> {
  const { default: scalar } = await import('@scalar/fastify-api-reference')
  const reference = fastify({ routerOptions: { ignoreTrailingSlash: false } })
  // Only pages need all of helmet's headers.
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

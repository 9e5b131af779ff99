// The API reference at `/docs`. It is loaded on the first request: its package alone takes 40 MB of memory.
import { createHash } from 'node:crypto'
import type { OutgoingHttpHeaders } from 'node:http'
import helmet from '@fastify/helmet'
import fastify, { type FastifyInstance } from 'fastify'

/** The page and its script of 4 MB. */
const REFERENCE_PATHS = ['/docs/', '/docs/js/scalar.js']

/** A file of the reference. All answers share its bytes. */
type ReferenceFile = { headers: OutgoingHttpHeaders; etag: string; bytes: Buffer }

export function docsRoutes(app: FastifyInstance): void {
  const reference = onDemand(loadReference)

  // Browsers request it on their own.
  app.get('/favicon.ico', (_request, reply) => reply.code(204).send())
  app.get('/docs', (_request, reply) => reply.redirect('/docs/', 301))
  for (const path of REFERENCE_PATHS) {
    const load = onDemand(async () => await loadFile(await reference(), path))
    app.get(path, async (request, reply) => {
      const { headers, etag, bytes } = await load()
      reply.headers({ ...headers, etag, 'cache-control': 'no-cache' })
      if (request.headers['if-none-match']?.includes(etag)) return await reply.code(304).send()
      return await reply.send(bytes)
    })
  }
}

/** Loads on the first call and caches the result. After a failure, the next call loads again. */
function onDemand<T>(load: () => Promise<T>): () => Promise<T> {
  let loaded: Promise<T> | undefined
  return () =>
    (loaded ??= load().catch((error: unknown) => {
      loaded = undefined
      throw error
    }))
}

async function loadFile(reference: FastifyInstance, path: string): Promise<ReferenceFile> {
  const { statusCode, headers, rawPayload: bytes, payload } = await reference.inject(path)
  if (statusCode !== 200) throw new Error(`The API reference answered ${path} with ${statusCode}`)
  const { date: _date, connection: _connection, ...stable_headers } = headers
  const isPage = String(headers['content-type']).startsWith('text/html')
  return {
    headers: isPage
      ? { ...stable_headers, 'content-security-policy': contentPolicy(payload) }
      : stable_headers,
    etag: `"${createHash('sha256').update(bytes).digest('base64url')}"`,
    bytes,
  }
}

/** Allows the page to load from this host only, and to run only its own inline scripts, by their hashes. */
function contentPolicy(page: string): string {
  const inline_scripts = Array.from(
    page.matchAll(/<script(?![^>]* src=)[^>]*>([\s\S]*?)<\/script>/g),
    ([, script = '']) => {
      return `'sha256-${createHash('sha256').update(script).digest('base64')}'`
    },
  )
  return [
    "default-src 'none'",
    `script-src 'self' ${inline_scripts.join(' ')}`,
    // The reference sets inline styles.
    "style-src 'self' 'unsafe-inline'",
    "img-src 'self' data:",
    "font-src 'self' data:",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; ')
}

/** A separate application that does not listen: plug-ins cannot be added to a running one. */
async function loadReference(): Promise<FastifyInstance> {
  const { default: scalar } = await import('@scalar/fastify-api-reference')
  const reference = fastify({ routerOptions: { ignoreTrailingSlash: false } })
  // Only pages need helmet's headers.
  await reference.register(helmet, { contentSecurityPolicy: false })
  await reference.register(scalar, {
    routePrefix: '/docs',
    configuration: {
      title: 'Sluice API',
      sources: [
        { url: '/openapi.json', title: 'Sluice API', slug: 'api', default: true },
        { url: '/openapi-webhooks.json', title: 'Webhooks host', slug: 'webhooks-host' },
      ],
      // The page connects to no other host.
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

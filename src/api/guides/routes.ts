// Serves the guides at `/docs/guides`, and the runbook at `/docs/runbook`. They are loaded on the first request.
import { readFile } from 'node:fs/promises'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { AppError } from '#core/errors.ts'
import { ROOT } from '#core/root.ts'
import { loadLibrary, type Library } from './library.ts'
import { guidePage, missingPage, searchPage } from './pages.ts'

const STYLE = new URL('src/api/guides/style.css', ROOT)
/** The images of the guides. */
const IMAGES = new URL('docs/images/', ROOT)
const MAX_QUERY_LENGTH = 200
const HEADERS = {
  'content-security-policy':
    "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
  'referrer-policy': 'no-referrer',
}

type Page = (library: Library, request: FastifyRequest, reply: FastifyReply) => string

export function guidesRoutes(app: FastifyInstance): void {
  let loaded: Promise<Library> | undefined

  const answer = (page: Page) => async (request: FastifyRequest, reply: FastifyReply) => {
    loaded ??= loadLibrary()
    const html = page(await loaded, request, reply)
    return await reply.headers(HEADERS).type('text/html; charset=utf-8').send(html)
  }

  app.get(
    '/docs/guides',
    answer((library) => guidePage(library, library.index)),
  )
  app.get('/docs/guides/', (_request, reply) => reply.redirect('/docs/guides'))
  app.get(
    '/docs/guides/search',
    answer((library, { query }) => {
      const { q } = query as { q?: unknown }
      return searchPage(library, typeof q === 'string' ? q.slice(0, MAX_QUERY_LENGTH) : '')
    }),
  )
  app.get('/docs/guides/style.css', async (_request, reply) =>
    reply
      .headers(HEADERS)
      .type('text/css; charset=utf-8')
      .send(await readFile(STYLE, 'utf8')),
  )
  app.get('/docs/images/:name', async (request, reply) => {
    const { name } = request.params as { name: string }
    const image = /^[a-z-]+\.png$/.test(name) ? await readFile(new URL(name, IMAGES)).catch(() => null) : null
    if (image === null) throw new AppError('route_not_found')
    return await reply.headers(HEADERS).type('image/png').send(image)
  })
  const answerPageOf = (part: 'guides' | 'runbook') =>
    answer((library, { params }, reply) => {
      const { name } = params as { name: string }
      const guide = library[part].find((each) => each.name === name)
      if (guide !== undefined) return guidePage(library, guide)
      reply.code(404)
      return missingPage(library)
    })
  app.get('/docs/guides/:name', answerPageOf('guides'))
  app.get('/docs/runbook/:name', answerPageOf('runbook'))
  app.get('/docs/runbook', (_request, reply) => reply.redirect('/docs/guides/operations#alerts'))
}

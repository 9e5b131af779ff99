// The guides at `/docs/guides`, read when somebody first looks.
import { readFile } from 'node:fs/promises'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Library } from './library.ts'

const HEADERS = {
  'content-security-policy':
    "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
  'referrer-policy': 'no-referrer',
}

type Pages = typeof import('./pages.ts')

export function guidesRoutes(app: FastifyInstance): void {
  let loaded: Promise<{ library: Library; pages: Pages }> | undefined

  const answer =
    (make: (library: Library, pages: Pages, request: FastifyRequest, reply: FastifyReply) => string) =>
    async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
      loaded ??= load()
      const { library, pages } = await loaded
      const html = make(library, pages, request, reply)
      return await reply.headers(HEADERS).type('text/html; charset=utf-8').send(html)
    }

  app.get(
    '/docs/guides',
    answer((library, { guidePage }) => guidePage(library, library.index)),
  )
  app.get('/docs/guides/', (_request, reply) => reply.redirect('/docs/guides'))
  app.get(
    '/docs/guides/search',
    answer((library, { searchPage }, { query }) => {
      const { q } = query as { q?: unknown }
      return searchPage(library, typeof q === 'string' ? q.slice(0, 200) : '')
    }),
  )
  app.get('/docs/guides/style.css', async (_request, reply) =>
    reply
      .headers(HEADERS)
      .type('text/css; charset=utf-8')
      .send(await readFile(STYLE, 'utf8')),
  )
  app.get<{ Params: { name: string } }>(
    '/docs/guides/:name',
    answer((library, { guidePage, missingPage }, { params }, reply) => {
      const { name } = params as { name: string }
      const guide = library.guides.find((each) => each.name === name)
      if (guide !== undefined) return guidePage(library, guide)
      reply.code(404)
      return missingPage(library)
    }),
  )
}

const STYLE = new URL('./style.css', import.meta.url)

async function load(): Promise<{ library: Library; pages: Pages }> {
  const [{ loadLibrary }, pages] = await Promise.all([import('./library.ts'), import('./pages.ts')])
  return { library: await loadLibrary(), pages }
}

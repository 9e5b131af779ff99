// bull-board: a read-only view of the wake-ups in BullMQ.
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import { QUEUES } from '#core/config/queues.ts'
import { AppError } from '#core/errors.ts'
import type { DashboardContext } from '../../context.ts'

const PATH = '/ops/bull-board'
/** Hash of a style that bull-board's script adds. The style of another version is blocked, which is harmless. */
const SCRIPT_STYLE_HASH = 'sha256-r2N1TB/gHbBtBZFKg7ejmq1acVSREzucTAEw6ga4hoU='
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  `style-src 'self' '${SCRIPT_STYLE_HASH}'`,
  "img-src 'self' data:",
  "font-src 'self'",
  "connect-src 'self'",
  "base-uri 'self'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')
/** Links in bull-board's page to files on other hosts. */
const EXTERNAL_LINKS = /<link\b[^>]*\bhref="https?:[^>]*>/g
/** bull-board's loading screen, which has inline styles. */
const LOADING_PLACEHOLDER = /(<div id="root">)[^]*?<\/style>\s*(<\/div>)/

/** Loads bull-board on the first request. Serves GET only, so its mutating routes are unreachable. */
export function bullBoardRoutes(app: FastifyInstance, { queue, log }: DashboardContext): void {
  let board: Promise<FastifyInstance> | undefined
  async function load(): Promise<FastifyInstance> {
    const queues = await queue.bullQueues(QUEUES).catch((err: unknown) => {
      log.warn({ err }, 'bull-board could not open the queues')
      throw new AppError('overloaded', { message: 'The queues are unavailable. Try again soon.' })
    })
    return await buildBoard(queues)
  }

  async function serve(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    board ??= load().catch((error: unknown) => {
      board = undefined
      throw error
    })
    const built = await board
    reply.hijack()
    built.routing(request.raw, reply.raw)
  }
  app.get(PATH, serve)
  app.get(`${PATH}/*`, serve)
  app.addHook('onClose', async () => {
    const built = await board?.catch(() => undefined)
    await built?.close()
  })
}

async function buildBoard(
  queues: Awaited<ReturnType<DashboardContext['queue']['bullQueues']>>,
): Promise<FastifyInstance> {
  const [{ createBullBoard }, { BullMQAdapter }, { FastifyAdapter }] = await Promise.all([
    import('@bull-board/api'),
    import('@bull-board/api/bullMQAdapter'),
    import('@bull-board/fastify'),
  ])
  const server = new FastifyAdapter()
  createBullBoard({
    queues: queues.map((each) => new BullMQAdapter(each, { readOnlyMode: true })),
    // The adapter has its own copy of these types. Private fields make them incompatible.
    serverAdapter: server as unknown as Parameters<typeof createBullBoard>[0]['serverAdapter'],
    options: {
      uiConfig: { boardTitle: 'Wake-ups in BullMQ', miscLinks: [{ text: 'Sluice', url: '/ops/queues' }] },
    },
  })
  server.setBasePath(PATH)
  const app = Fastify({ logger: false })
  app.addHook('onRequest', async (_request, reply) => {
    reply.header('content-security-policy', POLICY)
  })
  app.addHook('onSend', async (_request, reply, body) => {
    const is_page = String(reply.getHeader('content-type')).startsWith('text/html')
    if (!is_page) return body
    reply.header('cache-control', 'no-store')
    reply.removeHeader('content-length')
    return String(body).replaceAll(EXTERNAL_LINKS, '').replace(LOADING_PLACEHOLDER, '$1$2')
  })
  await app.register(server.registerPlugin(), { prefix: PATH })
  await app.ready()
  return app
}

// Serves the built pages (`npm run build`) under a strict content security policy.
import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import files from '@fastify/static'
import type { FastifyInstance, FastifyReply } from 'fastify'
import { AppError } from '#core/errors.ts'
import { ROOT } from '#core/root.ts'

const BUILD_DIRECTORY = fileURLToPath(new URL('dist/dashboard', ROOT))
/** Placeholder in the built page for the nonce of a response. */
const NONCE_PLACEHOLDER = '__CSP_NONCE__'
const NOT_BUILT =
  'The pages of the dashboard are not built yet, or are being built. If this does not change, run: npm run build\n'

/** Serves the assets, and index.html at every other path: routing happens in the browser. */
export function pageRoutes(app: FastifyInstance): void {
  const assets = join(BUILD_DIRECTORY, 'assets')
  // The pages may be built while the dashboard runs.
  if (!existsSync(assets)) mkdirSync(assets, { recursive: true })
  app.register(files, {
    root: assets,
    prefix: '/assets/',
    // File names contain a hash of the content.
    immutable: true,
    maxAge: '1y',
    index: false,
    preCompressed: true,
    decorateReply: false,
  })

  async function sendPage(reply: FastifyReply): Promise<FastifyReply> {
    const text = await readFile(join(BUILD_DIRECTORY, 'index.html'), 'utf8').catch(() => undefined)
    if (text === undefined)
      return await reply
        .code(503)
        .header('cache-control', 'no-store')
        .type('text/plain; charset=utf-8')
        .send(NOT_BUILT)
    const nonce = randomBytes(16).toString('base64')
    return await reply
      .headers({ 'content-security-policy': contentSecurityPolicy(nonce), 'cache-control': 'no-store' })
      .type('text/html; charset=utf-8')
      .send(text.replaceAll(NONCE_PLACEHOLDER, nonce))
  }

  app.get('/favicon.ico', (_request, reply) => reply.code(204).send())
  app.get('/*', async (request, reply) => {
    if (/^\/(api|assets)(\/|$)/.test(request.url.split('?', 1)[0]!)) throw new AppError('route_not_found')
    return await sendPage(reply)
  })
}

function contentSecurityPolicy(nonce: string): string {
  return [
    "default-src 'none'",
    "script-src 'self'",
    `style-src 'self' 'nonce-${nonce}'`,
    "img-src 'self' data:",
    "font-src 'self'",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'self'",
    "frame-ancestors 'none'",
  ].join('; ')
}

// The HTTP server of an emulator: its page, its controls, and its API for all other paths.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { accessProblemOf } from './guard.ts'
import { sendPage } from './html.ts'
import { readExchange, send, type Exchange } from './http.ts'

/**
 * Idle timeout of connections, longer than that of clients, so that no connection closes while a request is being
 * sent.
 */
const KEEP_ALIVE_MS = 120_000
const MAX_CONNECTIONS = 10_000

type ServerHandlers = {
  api: (exchange: Exchange) => void
  /** Handles requests under `/_emulator/`. */
  control: (exchange: Exchange) => Promise<void>
  page: (query: string) => string
  /** The body of a refusal. */
  errorBody: (message: string) => string
}

/** Resolves when the server listens. `close` closes open connections. */
export async function startServer(
  { host, port }: { host: string; port: number },
  handlers: ServerHandlers,
): Promise<{ url: string; port: number; close(): Promise<void> }> {
  const server = createServer((request, response) =>
    readExchange(request, response, (exchange) => dispatch(host, handlers, exchange)),
  )
  server.keepAliveTimeout = KEEP_ALIVE_MS
  server.maxConnections = MAX_CONNECTIONS
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, resolve)
  })
  const { port: bound } = server.address() as AddressInfo
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${bound}`,
    port: bound,
    async close() {
      const closed = new Promise((resolve) => server.close(resolve))
      server.closeAllConnections()
      await closed
    },
  }
}

function dispatch(host: string, { api, control, page, errorBody }: ServerHandlers, exchange: Exchange): void {
  const { method, path, query, request, response } = exchange
  // Browsers request the icon without a key.
  if (path === '/favicon.ico') return send(response, 204, {}, '')
  const is_page = path === '/' && method === 'GET'
  if (!is_page && !path.startsWith('/_emulator/')) return api(exchange)
  const message = accessProblemOf(request, host)
  if (message !== null) send(response, 403, {}, errorBody(message))
  else if (is_page) sendPage(response, 200, page(query))
  else void control(exchange)
}

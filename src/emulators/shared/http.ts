// Requests and responses over node:http.
import type { IncomingMessage, ServerResponse } from 'node:http'

export type Exchange = {
  request: IncomingMessage
  response: ServerResponse
  method: string
  path: string
  /** The query, without the question mark. */
  query: string
  body: string
}

const MAX_BODY_BYTES = 1024 * 1024

/** Reads the body and calls `then` synchronously after its end. */
export function readExchange(
  request: IncomingMessage,
  response: ServerResponse,
  then: (exchange: Exchange) => void,
): void {
  const url = request.url ?? '/'
  const mark = url.indexOf('?')
  const method = request.method ?? 'GET'
  const path = mark < 0 ? url : url.slice(0, mark)
  const query = mark < 0 ? '' : url.slice(mark + 1)
  let chunks: Buffer[] = []
  let size = 0
  request.on('data', (chunk: Buffer) => {
    size += chunk.length
    if (size <= MAX_BODY_BYTES) chunks.push(chunk)
    else chunks = []
  })
  request.on('end', () => {
    if (size > MAX_BODY_BYTES)
      return send(
        response,
        413,
        {},
        '{"error":{"type":"invalid_request_error","message":"Request too large"}}',
      )
    const body = size === 0 ? '' : (chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks)).toString('utf8')
    then({ request, response, method, path, query, body })
  })
  request.on('error', () => response.destroy())
}

/** Sends a response with a text body. */
export function send(
  response: ServerResponse,
  status: number,
  headers: Record<string, string>,
  body: string,
  type = 'application/json',
): void {
  response.writeHead(status, { 'content-type': type, 'content-length': Buffer.byteLength(body), ...headers })
  // A string is sent in one write together with the headers.
  response.end(body)
}

/** Sends half of the body and closes the connection. */
export function sendHalf(
  response: ServerResponse,
  status: number,
  headers: Record<string, string>,
  body: string,
): void {
  const bytes = Buffer.from(body)
  response.writeHead(status, {
    'content-type': 'application/json',
    'content-length': bytes.length,
    ...headers,
  })
  response.write(bytes.subarray(0, bytes.length >> 1), () => response.destroy())
}

/** A header by its name in lower case; null if missing. */
export function header(request: IncomingMessage, name: string): string | null {
  const value = request.headers[name]
  return typeof value === 'string' ? value : null
}

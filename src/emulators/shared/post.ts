// Posts callbacks and events to Sluice over persistent connections.
import { Agent, request as httpRequest } from 'node:http'
import { Agent as SecureAgent, request as httpsRequest } from 'node:https'

const MAX_READ_LENGTH = 10_000

/** The result of a post. `status` 0: no answer. */
export type Posted = { status: number; body: string }

export type Poster = {
  /** Never rejects. */
  post(url: string | URL, headers: Record<string, string>, body: string): Promise<Posted>
  /** Closes all connections; a request in progress gets no answer. */
  close(): void
}

export const NO_ANSWER: Posted = { status: 0, body: '' }

/** Creates a poster. `sockets`: maximum number of connections per host. */
export function createPoster({ sockets, deadline_ms }: { sockets: number; deadline_ms: number }): Poster {
  const options = { keepAlive: true, maxSockets: sockets }
  const agents = { http: new Agent(options), https: new SecureAgent(options) }

  return {
    post(to, headers, body) {
      const url = new URL(to)
      const [request, agent] =
        url.protocol === 'https:' ? [httpsRequest, agents.https] : [httpRequest, agents.http]
      const sent = { ...headers, 'content-length': Buffer.byteLength(body) }
      return new Promise((resolve) => {
        const outgoing = request(
          url,
          { method: 'POST', agent, headers: sent, timeout: deadline_ms },
          (response) => {
            let text = ''
            response.setEncoding('utf8')
            response.on('data', (part: string) => (text = (text + part).slice(0, MAX_READ_LENGTH)))
            response.on('end', () => resolve({ status: response.statusCode ?? 0, body: text }))
            response.on('error', () => resolve(NO_ANSWER))
            response.on('close', () => resolve(NO_ANSWER))
          },
        )
        outgoing.on('timeout', () => outgoing.destroy())
        outgoing.on('error', () => resolve(NO_ANSWER))
        outgoing.end(body)
      })
    },
    close() {
      agents.http.destroy()
      agents.https.destroy()
    },
  }
}

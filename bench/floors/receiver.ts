// An event receiver that counts arrivals and their delay after the event. `/hook/<name>` accepts an event; `/hang`
// never answers; `GET /stats/<name>` returns the statistics of a name, and `DELETE` resets them.
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

type Arrivals = { waits: number[]; first_at: number; last_at: number }

const names = new Map<string, Arrivals>()
const TIMESTAMP = /"timestamp":"([^"]+)"/

const server = createServer((request, response) => {
  const [, action, name = ''] = request.url!.split('/')
  if (action === 'hang') return void request.resume()
  if (action === 'stats')
    return answer(request.method === 'DELETE' ? resetStats(name) : statsOf(name), response)
  const chunks: Buffer[] = []
  request.on('data', (chunk: Buffer) => chunks.push(chunk))
  request.on('end', () => {
    recordArrival(name, Buffer.concat(chunks).toString('utf8'))
    response.writeHead(204).end()
  })
})

function recordArrival(name: string, body: string): void {
  const now = Date.now()
  const arrivals = names.get(name) ?? { waits: [], first_at: now, last_at: now }
  names.set(name, arrivals)
  arrivals.last_at = now
  arrivals.waits.push(now - Date.parse(TIMESTAMP.exec(body)?.[1] ?? ''))
}

function statsOf(name: string): object {
  const { waits, first_at, last_at } = names.get(name) ?? { waits: [], first_at: 0, last_at: 0 }
  const sorted = waits.toSorted((a, b) => a - b)
  const quantile = (q: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))] ?? null
  return { count: waits.length, took_ms: last_at - first_at, p50_ms: quantile(0.5), p99_ms: quantile(0.99) }
}

function resetStats(name: string): object {
  names.delete(name)
  return {}
}

function answer(action: object, response: ServerResponse): void {
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(action))
}

server.listen(0, '127.0.0.1', () => {
  const { port } = server.address() as AddressInfo
  console.log(JSON.stringify({ url: `http://127.0.0.1:${port}` }))
})
process.once('SIGTERM', () => process.exit(0))

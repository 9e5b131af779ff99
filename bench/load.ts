// The load generator. It sends HTTP/1.1 on raw sockets to save processor time, because it shares the cores with the
// measured system.
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { costs, cpuTimes } from './cpu.ts'

export type Load = {
  /** Answers per second. */
  rate: number
  /** Latencies in milliseconds. In an open loop, a latency counts from the time at which the request was due. */
  p50_ms: number
  p99_ms: number
  count: number
  elapsed_ms: number
  /** Processor time per request in microseconds: total, and by program. */
  cpu_us: number
  cpu: Record<string, number>
}

type Options = {
  url: string
  connections: number
  seconds: number
  /** A complete request as bytes (see `request`), or undefined if there are none left, which ends the run early. */
  next: () => string | undefined
  /** Accepted statuses. Any other status fails the run. */
  expect: number | readonly number[]
  onBody?: (body: string, answer: { status: number; latency_ms: number }) => void
}

const HEAD_END = Buffer.from('\r\n\r\n')
const LENGTH = Buffer.from('content-length: ')
const LENGTH_CAPITALS = Buffer.from('Content-Length: ')
/** The time limit for the answers that are outstanding at the end of a run. */
const DRAIN_TIMEOUT_MS = 15_000

/** A request as bytes. `body` must be ASCII. */
export function request(
  method: string,
  path: string,
  headers: Record<string, string> = {},
  body?: string,
): string {
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  if (body !== undefined) lines.push(`content-length: ${body.length}\r\n`)
  else if (method !== 'GET') lines.push('content-length: 0\r\n')
  return `${method} ${path} HTTP/1.1\r\nhost: bench\r\n${lines.join('')}\r\n${body ?? ''}`
}

/**
 * Closed loop: every connection sends its next request after each answer. Throws after an unexpected answer. `last`:
 * returns requests that are sent when the time is over, to complete work in progress.
 */
export async function closedLoop(options: Options & { last?: Options['next'] }): Promise<Load> {
  const { connections, seconds, next, last } = options
  return await drive(options, (lines, finished) => {
    const until = performance.now() + seconds * 1000
    let busy = connections
    const sendNext = (connection: Connection) => {
      const now = performance.now()
      const bytes = now < until ? next() : last?.()
      if (bytes === undefined) {
        busy -= 1
        if (busy === 0) finished()
      } else connection.send(bytes, now, sendNext)
    }
    for (const connection of lines) sendNext(connection)
  })
}

/**
 * Open loop: `rate` requests a second, independent of the answers. Latency counts from the due time, even while all
 * connections are busy.
 */
export async function openLoop(options: Options & { rate: number }): Promise<Load> {
  const { rate, seconds, next } = options
  return await drive(options, (lines, finished) => {
    const started = performance.now()
    const total = Math.floor(rate * seconds)
    const idle = [...lines]
    let sent = 0
    let answered = 0
    let exhausted = false
    const timer = setInterval(sendDue, 1)

    function sendDue(): void {
      while (sent < total && !exhausted && idle.length > 0) {
        const due = started + (sent * 1000) / rate
        if (due > performance.now()) return
        const bytes = next()
        if (bytes === undefined) {
          exhausted = true
          break
        }
        sent += 1
        // In turns: a server closes a connection that stays unused for a minute.
        idle.shift()!.send(bytes, due, release)
      }
      end()
    }
    function release(connection: Connection): void {
      answered += 1
      idle.push(connection)
      sendDue()
    }
    function end(): void {
      if (answered < sent || (sent < total && !exhausted)) return
      clearInterval(timer)
      finished()
    }
  })
}

type Connection = {
  send: (bytes: string, due: number, answered: (connection: Connection) => void) => void
  socket: Socket
}

async function drive(
  { url, connections, seconds, expect, onBody }: Options,
  run: (lines: Connection[], finished: () => void) => void,
): Promise<Load> {
  const { hostname: host, port } = new URL(url)
  const latencies: number[] = []
  const expected = [expect].flat()
  const { promise: done, resolve, reject } = Promise.withResolvers<void>()
  const lines = Array.from({ length: connections }, () => openConnection())
  await Promise.all(lines.map(({ socket }) => once(socket, 'connect')))

  const cpu_before = cpuTimes()
  const started = performance.now()
  let last = started
  const timer = setTimeout(
    () => reject(new Error(`the run did not end within ${seconds} s`)),
    seconds * 1000 + DRAIN_TIMEOUT_MS,
  )
  try {
    run(lines, resolve)
    await done
  } finally {
    clearTimeout(timer)
    for (const { socket } of lines) socket.destroy()
  }
  const cpu = costs(cpu_before, cpuTimes(), latencies.length)
  const elapsed_ms = last - started
  latencies.sort((a, b) => a - b)
  return {
    rate: latencies.length / (elapsed_ms / 1000),
    p50_ms: quantile(latencies, 0.5),
    p99_ms: quantile(latencies, 0.99),
    count: latencies.length,
    elapsed_ms,
    cpu_us: Object.values(cpu).reduce((sum, us) => sum + us, 0),
    cpu,
  }

  function openConnection(): Connection {
    const socket = connect({ host, port: Number(port), noDelay: true })
    let pending: Buffer | null = null
    let due = 0
    let answered: (connection: Connection) => void = () => {}
    const connection: Connection = {
      socket,
      send(bytes, at, then) {
        due = at
        answered = then
        socket.write(bytes, 'latin1')
      },
    }
    socket.on('error', reject)
    socket.on('close', () => reject(new Error(`${url} closed a connection`)))
    socket.on('data', (chunk: Buffer) => {
      const bytes = pending === null ? chunk : Buffer.concat([pending, chunk])
      const end = answerEnd(bytes)
      if (end === null) {
        pending = bytes
        return
      }
      pending = null
      last = performance.now()
      const latency_ms = last - due
      latencies.push(latency_ms)
      const status = Number(bytes.toString('latin1', 9, 12))
      if (!expected.includes(status))
        return reject(new Error(`${url} answered ${bytes.toString('utf8').slice(0, 2000)}`))
      onBody?.(bytes.toString('utf8', end.body, end.total), { status, latency_ms })
      answered(connection)
    })
    return connection
  }
}

/** The positions at which the body starts and the answer ends; null while the answer is incomplete. */
function answerEnd(bytes: Buffer): { body: number; total: number } | null {
  const head = bytes.indexOf(HEAD_END)
  if (head === -1) return null
  let at = bytes.indexOf(LENGTH)
  if (at === -1) at = bytes.indexOf(LENGTH_CAPITALS)
  if (at === -1 || at > head) throw new Error('an answer has no content-length')
  const length = Number.parseInt(bytes.toString('latin1', at + LENGTH.length, at + LENGTH.length + 12), 10)
  const total = head + HEAD_END.length + length
  return bytes.length < total ? null : { body: head + HEAD_END.length, total }
}

function quantile(sorted: number[], q: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))] ?? Number.NaN
}

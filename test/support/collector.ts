// A collector of OpenTelemetry: receives spans by OTLP over HTTP, in protobuf.
import { randomBytes } from 'node:crypto'
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { listening } from './receiver.ts'

export type CollectedSpan = {
  service: Record<string, unknown>
  trace_id: string
  span_id: string
  /** Empty without a parent. */
  parent_id: string
  name: string
  kind: 'internal' | 'server' | 'client' | 'producer' | 'consumer'
  attributes: Record<string, unknown>
  /** The trace ids of its links, each with a dash and the span id. */
  links: string[]
  /** The W3C `tracestate` of the span and of its links. */
  trace_states: string[]
  failed: boolean
  started_at: bigint
  ended_at: bigint
}

export type Collector = {
  url: string
  spans: CollectedSpan[]
  /** The headers of the requests so far. */
  requests: IncomingHttpHeaders[]
  /** Answers later requests with 400 and drops their spans; false: accepts requests again. */
  refuse(refuses: boolean): void
  /** After this call no request is answered, as by a machine that hangs. */
  hang(): void
  close(): Promise<void>
}

/** A span of a caller, and the header that names it. */
export type Caller = { trace_id: string; span_id: string; headers: { traceparent: string } }

/** `flags`: `01` if the caller's span is sampled. */
export function newCaller(flags = '01'): Caller {
  const [trace_id, span_id] = [randomBytes(16).toString('hex'), randomBytes(8).toString('hex')]
  return { trace_id, span_id, headers: { traceparent: `00-${trace_id}-${span_id}-${flags}` } }
}

const KINDS = ['internal', 'internal', 'server', 'client', 'producer', 'consumer'] as const
const FAILED = 2

/** Listens on a free port of this machine. */
export async function openCollector(): Promise<Collector> {
  const spans: CollectedSpan[] = []
  const requests: IncomingHttpHeaders[] = []
  let hangs = false
  let refuses = false
  async function receive(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await buffer(request)
    if (hangs) return
    if (refuses) return void response.writeHead(400).end()
    spans.push(...spansOf(body))
    response.writeHead(200, { 'content-type': 'application/x-protobuf' }).end()
  }
  const server = createServer((request, response) => {
    requests.push(request.headers)
    void receive(request, response)
  })
  return {
    url: `http://127.0.0.1:${await listening(server)}`,
    spans,
    requests,
    refuse(now_refuses) {
      refuses = now_refuses
    },
    hang() {
      hangs = true
    },
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

/** The spans of an `ExportTraceServiceRequest`. The numbers are those of OpenTelemetry's protobuf files. */
function spansOf(request: Uint8Array): CollectedSpan[] {
  return fieldsOf(request)
    .messages(1)
    .flatMap((of_resource) => {
      const service = attributesOf(of_resource.messages(1)[0]!.messages(1))
      const spans = of_resource.messages(2).flatMap((of_scope) => of_scope.messages(2))
      return spans.map((span) => ({
        service,
        trace_id: span.hex(1),
        span_id: span.hex(2),
        parent_id: span.hex(4),
        name: span.text(5),
        kind: KINDS[span.number(6)]!,
        started_at: span.fixed(7),
        ended_at: span.fixed(8),
        attributes: attributesOf(span.messages(9)),
        links: span.messages(13).map((link) => `${link.hex(1)}-${link.hex(2)}`),
        trace_states: [span, ...span.messages(13)].map((each) => each.text(3)).filter((text) => text !== ''),
        failed: span.messages(15)[0]?.number(3) === FAILED,
      }))
    })
}

function attributesOf(pairs: Fields[]): Record<string, unknown> {
  return Object.fromEntries(
    pairs.map((pair) => {
      const [value] = pair.messages(2)
      return [pair.text(1), value!.has(1) ? value!.text(1) : value!.number(3)]
    }),
  )
}

type Fields = {
  has(field: number): boolean
  messages(field: number): Fields[]
  text(field: number): string
  hex(field: number): string
  number(field: number): number
  fixed(field: number): bigint
}

/** Reads a message of protobuf. A missing field is empty or 0. */
function fieldsOf(message: Uint8Array): Fields {
  const bytes = Buffer.from(message)
  const values = new Map<number, (Buffer | bigint)[]>()
  let at = 0
  function varint(): bigint {
    let value = 0n
    for (let shift = 0n; ; shift += 7n) {
      const byte = bytes[at++]!
      value |= BigInt(byte & 0x7f) << shift
      if (byte < 0x80) return value
    }
  }
  function slice(length: number): Buffer {
    at += length
    return bytes.subarray(at - length, at)
  }
  while (at < bytes.length) {
    const tag = Number(varint())
    const type = tag & 7
    const value = type === 0 ? varint() : slice(type === 2 ? Number(varint()) : type === 1 ? 8 : 4)
    values.set(tag >> 3, [...(values.get(tag >> 3) ?? []), value])
  }
  const chunk = (field: number) => (values.get(field)?.[0] ?? Buffer.alloc(0)) as Buffer
  return {
    has: (field) => values.has(field),
    messages: (field) => (values.get(field) ?? []).map((each) => fieldsOf(each as Buffer)),
    text: (field) => chunk(field).toString('utf8'),
    hex: (field) => chunk(field).toString('hex'),
    number: (field) => Number(values.get(field)?.[0] ?? 0n),
    fixed: (field) => (values.has(field) ? chunk(field).readBigUInt64LE() : 0n),
  }
}

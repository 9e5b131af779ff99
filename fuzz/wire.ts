// A request as bytes, its answer, and the request as a shell command.
import { setTimeout as sleep } from 'node:timers/promises'
import { sendBytes, type RawAnswer } from '#test/raw.ts'

export type Sent = {
  /** The operation in the OpenAPI document, e.g. `POST /v1/payments/{id}/capture`. */
  operation: string
  method: string
  /** Path and query as sent. */
  target: string
  headers: (readonly [name: string, value: string])[]
  /** A binary string: one character per byte. Null: no body. */
  body: string | null
  /** How the end of the body is marked; `endless`: never. */
  framing: 'length' | 'chunked' | 'endless'
}

/** Every answer must arrive within this time, even with `wait=30`. */
const ANSWER_TIMEOUT_MS = 60_000
const CHUNK_BYTES = 20_000
const DRIP_INTERVAL_MS = 100

/** The UTF-8 bytes of a text as a binary string. */
export function binary(text: string): string {
  return Buffer.from(text, 'utf8').toString('latin1')
}

/** Sends a request on a new connection and returns the answer. Throws if none arrives. */
export async function send(url: string, sent: Sent): Promise<RawAnswer> {
  const timeout = new AbortController()
  const drip =
    sent.framing === 'endless'
      ? (socket: { write(text: string): unknown }) => {
          const timer = setInterval(() => socket.write('1\r\n \r\n'), DRIP_INTERVAL_MS)
          return () => clearInterval(timer)
        }
      : undefined
  try {
    return await Promise.race([
      sendBytes(url, bytesOf(url, sent), drip),
      sleep(ANSWER_TIMEOUT_MS, undefined, { signal: timeout.signal }).then(() => {
        throw new Error(`no answer within ${ANSWER_TIMEOUT_MS / 1000} s`)
      }),
    ])
  } finally {
    timeout.abort()
  }
}

/** The bytes of a request. The body of an endless request has no end. */
export function bytesOf(url: string, { method, target, headers, body, framing }: Sent): Buffer {
  const present = new Set(headers.map(([name]) => name.toLowerCase()))
  const lines = headers.map(([name, value]) => `${name}: ${value}\r\n`)
  const add = (name: string, value: string) => {
    if (!present.has(name)) lines.unshift(`${name}: ${value}\r\n`)
  }
  add('connection', 'close')
  if (framing !== 'length') add('transfer-encoding', 'chunked')
  else if (body !== null) add('content-length', String(body.length))
  add('host', new URL(url).host)
  const head = `${method} ${target} HTTP/1.1\r\n${lines.join('')}\r\n`
  return Buffer.from(head + (framing === 'length' ? (body ?? '') : chunks(body ?? '', framing)), 'latin1')
}

function chunks(body: string, framing: Sent['framing']): string {
  let text = ''
  for (let at = 0; at < body.length; at += CHUNK_BYTES) {
    const chunk = body.slice(at, at + CHUNK_BYTES)
    text += `${chunk.length.toString(16)}\r\n${chunk}\r\n`
  }
  return framing === 'endless' ? text : `${text}0\r\n\r\n`
}

/**
 * The request as a bash command. Requests that curl would correct are sent as bytes with nc. An endless request keeps
 * its connection open.
 */
export function asCommand(url: string, sent: Sent): string {
  const { method, target, headers, body, framing } = sent
  const valid_headers = headers.every(([name, value]) => /^[\w-]+$/.test(name) && !/[\0\r\n]/.test(value))
  const names = headers.map(([name]) => name.toLowerCase())
  const no_framing_headers = !names.includes('content-length') && !names.includes('transfer-encoding')
  if (framing === 'endless' || !valid_headers || !no_framing_headers || /[\s\0]/.test(target)) {
    const { hostname, port } = new URL(url)
    const suffix = framing === 'endless' ? '; sleep 60' : ''
    return `(printf %b ${quoted(bytesOf(url, sent).toString('latin1'), 'printf')}${suffix}) | nc ${hostname} ${port}`
  }
  const parts = [`curl -sS -i --path-as-is -g -X ${method} ${quoted(`${url}${target}`)}`]
  for (const [name, value] of headers)
    parts.push(`-H ${quoted(value === '' ? `${name};` : `${name}: ${value}`)}`)
  if (framing === 'chunked') parts.push(`-H 'transfer-encoding: chunked'`)
  if (body === null) return parts.join(' \\\n  ')
  if (!names.includes('content-type')) parts.push(`-H 'content-type:'`)
  if (!body.includes('\0')) return [...parts, `--data-binary ${quoted(body)}`].join(' \\\n  ')
  // A program argument cannot contain NUL.
  return `printf %b ${quoted(body, 'printf')} | ${[...parts, '--data-binary @-'].join(' \\\n  ')}`
}

function quoted(text: string, reader: 'bash' | 'printf' = 'bash'): string {
  if (reader === 'bash' && /^[\x20-\x7e]*$/.test(text)) return `'${text.replaceAll("'", `'\\''`)}'`
  const escaped = text.replaceAll(/[^\x20-\x7e]|['\\]/g, (each) => {
    const code = each.charCodeAt(0)
    if (reader === 'printf') return `\\0${code.toString(8).padStart(3, '0')}`
    return `\\x${code.toString(16).padStart(2, '0')}`
  })
  return reader === 'printf' ? `'${escaped}'` : `$'${escaped}'`
}

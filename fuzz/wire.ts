// A request as bytes, its answer, and the same request as a command line.
import { setTimeout as sleep } from 'node:timers/promises'
import { sendBytes, type RawAnswer } from '#test/raw.ts'

export type Sent = {
  /** The operation of the document that it is meant for, e.g. `POST /v1/payments/{id}/capture`. */
  operation: string
  method: string
  /** Path and query as they are written. */
  target: string
  headers: (readonly [name: string, value: string])[]
  /** As a binary string: one character for each byte. Null: the request has none. */
  body: string | null
  /** How the body's end is told; `endless`: not at all. */
  framing: 'length' | 'chunked' | 'endless'
}

/** Nothing waits longer than this for an answer, not even what asks to wait for 30 s. */
const ANSWER_TIMEOUT_MS = 60_000
const CHUNK_BYTES = 20_000
const DRIP_INTERVAL_MS = 100

/** Text as the bytes of its UTF-8, in a binary string. */
export function binary(text: string): string {
  return Buffer.from(text, 'utf8').toString('latin1')
}

/** Sends it on a connection of its own and answers what came back. Throws when nothing comes at all. */
export async function send(url: string, sent: Sent): Promise<RawAnswer> {
  const late = new AbortController()
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
      sleep(ANSWER_TIMEOUT_MS, undefined, { signal: late.signal }).then(() => {
        throw new Error(`no answer within ${ANSWER_TIMEOUT_MS / 1000} s`)
      }),
    ])
  } finally {
    late.abort()
  }
}

/** The bytes of it; without an end where it has none. */
export function bytesOf(url: string, { method, target, headers, body, framing }: Sent): Buffer {
  const given = new Set(headers.map(([name]) => name.toLowerCase()))
  const lines = headers.map(([name, value]) => `${name}: ${value}\r\n`)
  const add = (name: string, value: string) => {
    if (!given.has(name)) lines.unshift(`${name}: ${value}\r\n`)
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
 * The request for a shell (bash). Where curl would put right what is meant to be wrong, the bytes themselves are sent through nc,
 * and what has no end is left open.
 */
export function asCommand(url: string, sent: Sent): string {
  const { method, target, headers, body, framing } = sent
  const valid_headers = headers.every(([name, value]) => /^[\w-]+$/.test(name) && !/[\0\r\n]/.test(value))
  const names = headers.map(([name]) => name.toLowerCase())
  const no_framing_headers = !names.includes('content-length') && !names.includes('transfer-encoding')
  if (framing === 'endless' || !valid_headers || !no_framing_headers || /[\s\0]/.test(target)) {
    const { hostname, port } = new URL(url)
    const rest = framing === 'endless' ? '; sleep 60' : ''
    return `(printf %b ${quoted(bytesOf(url, sent).toString('latin1'), 'printf')}${rest}) | nc ${hostname} ${port}`
  }
  const parts = [`curl -sS -i --path-as-is -g -X ${method} ${quoted(`${url}${target}`)}`]
  for (const [name, value] of headers)
    parts.push(`-H ${quoted(value === '' ? `${name};` : `${name}: ${value}`)}`)
  if (framing === 'chunked') parts.push(`-H 'transfer-encoding: chunked'`)
  if (body === null) return parts.join(' \\\n  ')
  if (!names.includes('content-type')) parts.push(`-H 'content-type:'`)
  if (!body.includes('\0')) return [...parts, `--data-binary ${quoted(body)}`].join(' \\\n  ')
  // No argument of a program can hold a NUL.
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

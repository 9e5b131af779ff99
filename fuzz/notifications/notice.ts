// Invalid and unexpected notifications: the common part of all providers.
import { type Arbitrary, constant, constantFrom, nat, oneof, record, tuple } from 'fast-check'
import { badBytes, badHeaderValue, badSegment, badToken } from '../values.ts'
import { binary, type Sent } from '../wire.ts'

/** How a body is signed. `header`: this header replaces the signature. */
export type Signature =
  | { kind: 'genuine' | 'wrong_secret' | 'no_secret' | 'missing' | 'twice'; age_s: number }
  | { kind: 'header'; header: string }

export type Notice = { body: string; signature: Signature; method: string; path: string; type: string | null }

/** A provider that sends notifications. */
export type Notifier = {
  /** The name in `secrets` of a target. */
  name: 'stripe' | 'twilio' | 'email'
  /** Whether a genuine notification is trusted and may change its resource. If not, its provider is queried. */
  trusted: boolean
  /** All kinds of requests to its route. */
  cases: Arbitrary<Notice>
  /** The headers that sign these bytes for this URL and time (Unix seconds). `twice`: with a repeated signature. */
  sign: (bytes: Buffer, how: { url: string; secret: string; t: number; twice: boolean }) => Headers
  /** The header with the signature. */
  header: string
}
type Headers = Sent['headers']

const WRONG_SECRET = `whsec_${Buffer.from('nobody knows this secret').toString('base64')}`

/**
 * Requests with these bodies to these paths, with any signature, sometimes with another method, path or content type.
 */
export function noticesOf(
  paths: Arbitrary<string>,
  type: string,
  bodies: Arbitrary<string>,
): Arbitrary<Notice> {
  return record({
    body: bodies,
    signature,
    method: oneof(
      { weight: 15, arbitrary: constantFrom('POST') },
      constantFrom('GET', 'PUT', 'DELETE', 'OPTIONS'),
    ),
    path: oneof(
      { weight: 15, arbitrary: paths },
      tuple(paths, badSegment).map(([path, segment]) => `${path}/${segment}`),
    ),
    type: oneof(
      { weight: 5, arbitrary: constantFrom(type) },
      constantFrom('text/plain', 'application/json', 'application/x-www-form-urlencoded', null),
    ),
  })
}

/** Generates the given texts, some of them mutated, and bodies that are not notifications. */
export function spoiledBodies(texts: Arbitrary<string>): Arbitrary<string> {
  return oneof(
    { weight: 6, arbitrary: texts.map(binary) },
    { weight: 1, arbitrary: badToken.map(binary) },
    { weight: 1, arbitrary: badBytes },
    {
      weight: 1,
      arbitrary: tuple(texts, nat({ max: 300 }), badBytes).map(([text, at, bytes]) => {
        const bytes_of_text = binary(text)
        return bytes_of_text.slice(0, at) + bytes + bytes_of_text.slice(at)
      }),
    },
    {
      weight: 1,
      arbitrary: constantFrom('', '['.repeat(100_000), `"${'x'.repeat(1100 * 1024)}"`, ' '.repeat(500_000)),
    },
  )
}

export type Fields = [name: string, json: string][]

/** Returns the fields unchanged, or with any value for one of `names`. */
export function spoiling(names: string[]): Arbitrary<(fields: Fields) => Fields> {
  const spoil = tuple(constantFrom(...names), badToken).map(([name, token]) => (fields: Fields): Fields => [
    ...fields.filter(([each]) => each !== name),
    [name, token],
  ])
  return oneof(
    { weight: 3, arbitrary: constant((fields: Fields) => fields) },
    { weight: 2, arbitrary: spoil },
  )
}

export function asFields(object: Record<string, unknown>): Fields {
  return Object.entries(object).map(([name, value]) => [name, JSON.stringify(value)])
}

/** The fields as a JSON object. */
export function toJson(fields: Fields): string {
  return `{${fields.map(([name, value]) => `${JSON.stringify(name)}:${value}`).join(',')}}`
}

const genuine: Arbitrary<Signature> = constantFrom<Signature>({ kind: 'genuine', age_s: 0 })
const signature: Arbitrary<Signature> = oneof(
  { weight: 5, arbitrary: genuine },
  {
    weight: 1,
    arbitrary: record({
      kind: constantFrom('genuine', 'wrong_secret', 'no_secret', 'missing', 'twice'),
      age_s: constantFrom(0, 299, 301, -301, 1e9),
    }),
  },
  { weight: 1, arbitrary: badHeaderValue.map((header): Signature => ({ kind: 'header', header })) },
)

/** The notice as an unsigned request. Placeholders must be filled before it is signed. */
export function unsigned({ name }: Notifier, { body, method, path, type }: Notice): Sent {
  const headers = type === null ? [] : [['content-type', type] as const]
  const target = path.replaceAll(/[^\x21-\x7e]/gu, (each) => encodeURIComponent(each))
  return { operation: `POST /${name}`, method, target, headers, body, framing: 'length' }
}

/** Signs the request. `webhooks_url`: the URL of the host. */
export function signed(
  { sign, header }: Notifier,
  sent: Sent,
  how: Signature,
  { url: webhooks_url, secret }: { url: string; secret: string },
): Sent {
  if (how.kind === 'missing') return sent
  const bytes = Buffer.from(sent.body ?? '', 'latin1')
  const key = how.kind === 'wrong_secret' ? WRONG_SECRET : how.kind === 'no_secret' ? '' : secret
  const t = Math.floor(Date.now() / 1000) - (how.kind === 'header' ? 0 : how.age_s)
  const own = sign(bytes, {
    url: `${webhooks_url}${sent.target}`,
    secret: key,
    t,
    twice: how.kind === 'twice',
  })
  const headers = how.kind === 'header' ? own.filter(([name]) => name !== header) : own
  return {
    ...sent,
    headers: [...sent.headers, ...headers, ...(how.kind === 'header' ? [[header, how.header] as const] : [])],
  }
}

/** True if the body was not signed by a holder of the secret. */
export function isForged(how: Signature): boolean {
  return how.kind === 'wrong_secret' || how.kind === 'no_secret' || how.kind === 'missing'
}

// Mutations of a valid request: another path, query or header, an invalid field or invalid bytes.
import { gzipSync } from 'node:zlib'
import { type Arbitrary, constant, constantFrom, nat, oneof, tuple } from 'fast-check'
import type { DocumentedRoute } from '#test/documentation.ts'
import { badBytes, badHeaderValue, badQuery, badSegment, badText, badToken, INJECTED } from './values.ts'
import { binary } from './wire.ts'

/** The parts of a request before it is serialized. */
export type Draft = {
  path: string
  query: string
  headers: (readonly [name: string, value: string])[]
  /** The fields of the body with their JSON; null: no body. */
  fields: [name: string, json: string][] | null
  /** Changes of the serialized body. */
  spoil: ((body: string) => string)[]
  framing: 'length' | 'chunked'
}
type Mutation = (draft: Draft) => Draft

export const PAYMENTS = ['@{authorized}', '@{captured}', '@{refunded}']
const OTHER_TENANT_IDS = [
  'customer',
  'recipient',
  'merchant',
  'payout',
  'top_up',
  'kyc',
  'dispute',
  'ai_task',
  'email',
  'sms',
  'template',
  'suppression',
  'event',
  'endpoint',
  'delivery',
  'recovery',
  'authorized',
  'captured',
  'refund',
].map((name) => `@{other.${name}}`)
/** An id that does not exist. */
export const NONEXISTENT_ID = '0198f6f0-1234-7000-8000-123456789abc'

/** Any single mutation. `names`: the fields of the body. */
export function mutationFor(route: DocumentedRoute, names: string[]): Arbitrary<Mutation> {
  const ofPath = route.path.includes('{') ? [pathMutation(route)] : []
  const ofBody = route.operation.requestBody ? [fieldMutation(names), bodyMutation] : [strayBody]
  return oneof(
    { weight: 2, arbitrary: oneof(strangePath, ...ofPath) },
    { weight: 1, arbitrary: queryMutation },
    { weight: 2, arbitrary: headerMutation },
    { weight: 6, arbitrary: oneof(...ofBody) },
  )
}

/** Another id: of another tenant, nonexistent, spelled differently, or invalid. */
function pathMutation({ path }: DocumentedRoute): Arbitrary<Mutation> {
  const id = oneof(
    constantFrom(
      ...OTHER_TENANT_IDS,
      '@{other.key}',
      NONEXISTENT_ID,
      '@{customer}',
      ...PAYMENTS,
      '@{refund}',
      '@{key}',
      '@{kyc}',
    ),
    constantFrom(
      '@{upper.customer}',
      '@{upper.authorized}',
      '@{upper.captured}',
      '@{upper.refund}',
      '@{upper.payout}',
    ),
    badSegment,
  )
  return id.map((each) => (draft) => ({ ...draft, path: path.replace(/\{\w+\}/, each) }))
}

const strangePath: Arbitrary<Mutation> = oneof(
  badSegment.map((segment): Mutation => (draft) => ({ ...draft, path: `${draft.path}/${segment}` })),
  badSegment.map((segment): Mutation => (draft) => ({ ...draft, path: `${draft.path}${segment}` })),
  constantFrom<(path: string) => string>(
    (path) => `/${path}`,
    (path) => `${path}/`,
    (path) => path.replace('/v1/', '/V1/'),
    (path) => path.replace('/v1/', '/v1//'),
    (path) => path.replace('/v1/', '/v1/./'),
    (path) => path.replace('/v1/', '/v2/../v1/'),
    (path) => path.replace('/v1/', '/%76%31/'),
    (path) => `http://elsewhere.example${path}`,
    (path) => path.replaceAll('/', '\\'),
    (path) => `${path}#fragment`,
  ).map((change): Mutation => (draft) => ({ ...draft, path: change(draft.path) })),
)

const queryMutation: Arbitrary<Mutation> = oneof(
  badQuery.map((query): Mutation => (draft) => ({ ...draft, query })),
  tuple(
    constantFrom('limit', 'before', 'status', 'currency', 'email', 'amount_min', 'metadata[a]'),
    badText,
  ).map(([name, value]): Mutation => (draft) => ({
    ...draft,
    query: `${draft.query === '' ? '?' : `${draft.query}&`}${name}=${encodeURIComponent(value)}`,
  })),
)

const TYPES = [
  'text/plain',
  'application/x-www-form-urlencoded',
  'multipart/form-data; boundary=x',
  'application/xml',
  'application/json; charset=utf-16',
  'application/json; charset=utf-8',
  'Application/JSON',
  'application/jsonp',
  'application/json, text/plain',
  'json',
  '',
  ';',
]
const NAMES = [
  'prefer',
  'idempotency-key',
  'x-request-id',
  'authorization',
  'content-type',
  'user-agent',
  'accept',
]
const COMPLETE_HEADERS: (readonly [name: string, value: string])[] = [
  ['authorization', 'Bearer'],
  ['authorization', 'Basic @{api_key}'],
  ['authorization', 'Bearer @{api_key}x'],
  ['idempotency-key', '@{fresh}'],
  ['idempotency-key', '@{key}'],
  ['content-length', '-1'],
  ['content-length', '1e2'],
  ['content-length', '3'],
  ['content-length', '10000000000'],
  ['transfer-encoding', 'gzip, chunked'],
  ['transfer-encoding', 'identity'],
  ['expect', 'the unexpected'],
  ['upgrade', 'h2c'],
  ['x-http-method-override', 'DELETE'],
  ['__proto__', 'x'],
  ['host', ''],
  ['host', 'a b'],
  ['range', 'bytes=0-1'],
  ['bad name', '1'],
  ['te', 'trailers'],
]

const headerMutation: Arbitrary<Mutation> = oneof(
  constantFrom(...TYPES).map((type) => replacing('content-type', type)),
  constantFrom('gzip', 'br', 'deflate', 'zstd', 'identity', 'x').map((type) =>
    replacing('content-encoding', type),
  ),
  tuple(constantFrom(...NAMES), badHeaderValue).map(([name, value]) => replacing(name, value)),
  constantFrom(...COMPLETE_HEADERS).map(([name, value]) => replacing(name, value)),
  constantFrom(...COMPLETE_HEADERS).map(([name, value]): Mutation => (draft) => ({
    ...draft,
    headers: [...draft.headers, [name, value]],
  })),
  constantFrom('authorization', 'content-type').map((removed): Mutation => (draft) => ({
    ...draft,
    headers: draft.headers.filter(([name]) => name !== removed),
  })),
  nat({ max: 3000 }).map((count): Mutation => (draft) => ({
    ...draft,
    headers: [...draft.headers, ...Array.from({ length: count }, (_, i) => [`x-${i}`, '1'] as const)],
  })),
)

function replacing(name: string, value: string): Mutation {
  return (draft) => ({
    ...draft,
    headers: [...draft.headers.filter(([each]) => each !== name), [name, value]],
  })
}

/** Changes, removes, adds or duplicates a field. */
function fieldMutation(names: string[]): Arbitrary<Mutation> {
  const name = names.length === 0 ? constant('x') : constantFrom(...names)
  const token = oneof(
    { weight: 5, arbitrary: badToken },
    {
      weight: 1,
      arbitrary: constantFrom(...OTHER_TENANT_IDS, NONEXISTENT_ID, '@{upper.customer}').map((id) =>
        JSON.stringify(id),
      ),
    },
  )
  const change = (edit: (fields: [string, string][]) => [string, string][]): Mutation => {
    return (draft) => ({ ...draft, fields: edit(draft.fields ?? []) })
  }
  const without = (fields: [string, string][], removed: string) => fields.filter(([each]) => each !== removed)
  return oneof(
    {
      weight: 6,
      arbitrary: tuple(name, token).map(([each, json]) =>
        change((fields) => [...without(fields, each), [each, json]]),
      ),
    },
    {
      weight: 2,
      arbitrary: tuple(name, nat({ max: 3 }), token).map(([each, at, json]) =>
        change((fields) =>
          fields.map(([own, value]) => [own, own === each ? inside(value, at, json) : value]),
        ),
      ),
    },
    {
      weight: 1,
      arbitrary: tuple(name, nat({ max: 40 }), headerInjection).map(([each, at, end]) =>
        change((fields) =>
          fields.map(([own, value]) => [own, own === each ? broken(value, at, end) : value]),
        ),
      ),
    },
    { weight: 1, arbitrary: name.map((each) => change((fields) => without(fields, each))) },
    {
      weight: 1,
      arbitrary: tuple(oneof(badText, constantFrom('id', 'tenant_id', 'status', 'amount')), token).map(
        (pair) => change((fields) => [...fields, pair]),
      ),
    },
    { weight: 1, arbitrary: tuple(name, token).map((pair) => change((fields) => [...fields, pair])) },
  )
}

/** Replaces a value of a JSON object by this token. `at` selects the value. Returns other JSON unchanged. */
function inside(json: string, at: number, token: string): string {
  // An earlier mutation may have made the text invalid JSON.
  const value = parsed(json)
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return json
  const pairs = Object.entries(value).map(([name, each]) => [name, JSON.stringify(each)] as const)
  if (pairs.length === 0) return `{"a":${token}}`
  const spoilt = at % pairs.length
  return `{${pairs.map(([name, each], index) => `${JSON.stringify(name)}:${index === spoilt ? token : each}`).join(',')}}`
}

/** A header injection, if the text becomes a header. */
const headerInjection = constantFrom('\r\n', '\n', '\r').map((end) => `${end}${INJECTED}: 1${end}`)

/** Inserts this piece into each string of the JSON, at an index that `at` selects. */
function broken(json: string, at: number, piece: string): string {
  const insert = (text: string) =>
    text.slice(0, at % (text.length + 1)) + piece + text.slice(at % (text.length + 1))
  return JSON.stringify(parsed(json), (_name, value: unknown) =>
    typeof value === 'string' ? insert(value) : value,
  )
}

function parsed(json: string): unknown {
  try {
    return JSON.parse(json) as unknown
  } catch {
    return null
  }
}

function spoiling(spoil: (body: string) => string): Mutation {
  return (draft) => ({ ...draft, fields: draft.fields ?? [], spoil: [...draft.spoil, spoil] })
}

/** Changes of the complete body: truncated, compressed, wrapped, or replaced. */
const bodyMutation: Arbitrary<Mutation> = oneof(
  nat({ max: 300 }).map((at) => spoiling((body) => body.slice(0, at))),
  tuple(nat({ max: 300 }), badBytes).map(([at, bytes]) =>
    spoiling((body) => body.slice(0, at) + bytes + body.slice(at)),
  ),
  tuple(nat({ max: 300 }), badBytes).map(([at, bytes]) =>
    spoiling((body) => body.slice(0, at) + bytes + body.slice(at + bytes.length)),
  ),
  badToken.map((token) => spoiling(() => binary(token))),
  constantFrom<(body: string) => string>(
    () => '',
    (body) => `[${body}]`,
    (body) => body + body,
    (body) => `${body}\n{"level":60,"msg":"forged"}`,
    (body) => `\xef\xbb\xbf${body}`,
    (body) => body + ' '.repeat(300 * 1024),
    (body) => gzipSync(Buffer.from(body, 'latin1')).toString('latin1'),
    (body) => Buffer.from(body, 'latin1').toString('utf16le'),
    () => '{"a":'.repeat(20_000) + '1' + '}'.repeat(20_000),
    () => '['.repeat(100_000),
    () => `{"x":[${'{},'.repeat(20_000)}{}]}`,
  ).map(spoiling),
)

/** A body for an operation that has none. */
const strayBody: Arbitrary<Mutation> = badToken.map((token) => (draft) => ({
  ...replacing('content-type', 'application/json')(draft),
  fields: [],
  spoil: [() => binary(token)],
}))

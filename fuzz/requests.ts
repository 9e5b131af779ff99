// Requests for an operation of the document: valid ones, and what becomes of them by a mutation or two.
import { gzipSync } from 'node:zlib'
import {
  type Arbitrary,
  array,
  boolean,
  constant,
  constantFrom,
  dictionary,
  integer,
  jsonValue,
  nat,
  oneof,
  option,
  string,
  tuple,
  uniqueArray,
} from 'fast-check'
import type { DocumentedRoute } from '#test/documentation.ts'
import { badBytes, badHeaderValue, badQuery, badSegment, badText, badToken } from './values.ts'
import { binary, type Sent } from './wire.ts'

/** A request in its parts, before it is written down. */
type Draft = {
  path: string
  query: string
  headers: (readonly [name: string, value: string])[]
  /** The fields of the body, each with its JSON; null: no body. */
  fields: [name: string, json: string][] | null
  /** What is done to the body's bytes once they are written. */
  spoil: ((body: string) => string)[]
  framing: 'length' | 'chunked'
}
type Mutation = (draft: Draft) => Draft

/**
 * What stands for a thing that the fuzzed system has, and is put in when the request is sent: `@{customer}`, `@{held}` (an
 * authorized payment), `@{captured}`, `@{refund}`, each also as `@{other.customer}` of another tenant; `@{key}`, a key that was
 * used; `@{fresh}`, one that was not; `@{api_key}`. `@{upper.held}` is the same id in capitals.
 */
export const PLACEHOLDER = /@\{([\w.]+)\}/g

const PAYMENTS = ['@{held}', '@{captured}', '@{refunded}']
const OTHERS = ['@{other.customer}', '@{other.held}', '@{other.captured}', '@{other.refund}']
const NOBODYS = '0198f6f0-1234-7000-8000-123456789abc'

/** What a field of this name means, where its schema does not say enough. */
const MEANINGS: Record<string, Arbitrary<unknown>> = {
  idempotency_key: oneof(
    { weight: 9, arbitrary: constant('@{fresh}') },
    { weight: 1, arbitrary: constant('@{key}') },
  ),
  currency: constantFrom('USD', 'eur', 'JPY', 'KWD', 'ISK'),
  customer_id: constant('@{customer}'),
  payment_method: constantFrom(
    'pm_card_visa',
    'pm_card_chargeDeclined',
    'pm_card_authenticationRequired',
    'pm_card_nobody',
  ),
  return_url: constant('https://example.com/back?a=b'),
  amount_minor: integer({ min: 1, max: 2000 }),
  amount_min: integer({ min: 0, max: 2000 }),
  amount_max: integer({ min: 0, max: 2000 }),
  metadata: jsonValue({ maxDepth: 3, noUnicodeString: false }).map((value) => tidy(value)),
}

/** Every kind of request for one operation. */
export function requestsFor(document: any, route: DocumentedRoute): Arbitrary<Sent> {
  const operation = `${route.method} ${route.path}`
  const names = namesOf(document, route)
  return tuple(validDraft(document, route), array(mutationFor(route, names), { maxLength: 2 })).map(
    ([draft, mutations]) =>
      written(
        operation,
        route.method,
        mutations.reduce((now, change) => change(now), draft),
      ),
  )
}

function validDraft(document: any, route: DocumentedRoute): Arbitrary<Draft> {
  const schema = bodySchema(document, route)
  const body =
    schema === null ? constant(null) : validObject(document, schema).map((value) => Object.entries(value))
  const queries = (route.operation.parameters ?? []).filter((each: any) => each.in === 'query')
  const query = uniqueArray(
    queries.length === 0
      ? constant(null)
      : constantFrom<any>(...queries).chain((each) =>
          validValue(document, each.schema, each.name).map((value) => [each.name, value] as const),
        ),
    { maxLength: 3, selector: (pair) => pair?.[0] },
  )
  return tuple(pathFor(route), query, body, option(preference, { freq: 2 }), boolean()).map(
    ([path, pairs, value, prefer, chunked]) => ({
      path,
      query: asQuery(pairs.filter((pair) => pair !== null)),
      headers: [
        ['authorization', 'Bearer @{api_key}'] as const,
        ...(value === null ? [] : [['content-type', 'application/json'] as const]),
        ...(prefer === null ? [] : [['prefer', prefer] as const]),
      ],
      fields: value?.map(([name, each]) => [name, JSON.stringify(each)]) ?? null,
      spoil: [],
      framing: chunked && value !== null ? 'chunked' : 'length',
    }),
  )
}

const preference = constantFrom('respond-async', 'wait=0', 'wait=1', 'wait=30', 'wait=31', 'wait=-1')

function asQuery(pairs: (readonly [name: string, value: unknown])[]): string {
  const all = pairs.flatMap(([name, value]) =>
    typeof value === 'object' && value !== null
      ? Object.entries(value).map(([key, each]) => [`${name}[${key}]`, each] as const)
      : [[name, value] as const],
  )
  if (all.length === 0) return ''
  return `?${all.map(([name, value]) => `${encodeURIComponent(name)}=${escaped(String(value))}`).join('&')}`
}

// A placeholder stays one.
function escaped(text: string): string {
  return /^@\{[\w.]+\}$/.test(text) ? text : encodeURIComponent(text.toWellFormed())
}

/** The path with an id of what the operation is about. */
function pathFor({ method, path }: DocumentedRoute): Arbitrary<string> {
  const own = path.startsWith('/v1/customers/')
    ? ['@{customer}']
    : path.startsWith('/v1/payments/')
      ? method === 'GET'
        ? PAYMENTS
        : path.endsWith('/refunds')
          ? ['@{captured}', '@{captured}', ...PAYMENTS]
          : ['@{held}', '@{held}', ...PAYMENTS]
      : path.startsWith('/v1/idempotency_keys/')
        ? ['@{key}']
        : ['@{refund}', NOBODYS]
  // An id means the same in capitals; a key of the caller's does not.
  const ids = path.includes('{key}')
    ? own
    : [...own, ...own.slice(0, 1).map((id) => id.replace('@{', '@{upper.'))]
  return constantFrom(...ids).map((id) => path.replace(/\{\w+\}/, id))
}

function mutationFor(route: DocumentedRoute, names: string[]): Arbitrary<Mutation> {
  const ofPath = route.path.includes('{') ? [otherPath(route)] : []
  const ofBody = route.operation.requestBody === undefined ? [strayBody] : [otherField(names), otherBytes]
  return oneof(
    { weight: 2, arbitrary: oneof(strangePath, ...ofPath) },
    { weight: 1, arbitrary: otherQuery },
    { weight: 2, arbitrary: otherHeader },
    { weight: 6, arbitrary: oneof(...ofBody) },
  )
}

/** Another id: another tenant's, nobody's, one that is written differently, or none. */
function otherPath({ path }: DocumentedRoute): Arbitrary<Mutation> {
  const id = oneof(
    constantFrom(...OTHERS, '@{other.key}', NOBODYS, '@{customer}', ...PAYMENTS, '@{refund}', '@{key}'),
    constantFrom('@{upper.customer}', '@{upper.held}', '@{upper.captured}', '@{upper.refund}'),
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

const otherQuery: Arbitrary<Mutation> = oneof(
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
const WHOLE: (readonly [name: string, value: string])[] = [
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

const otherHeader: Arbitrary<Mutation> = oneof(
  constantFrom(...TYPES).map((type) => replacing('content-type', type)),
  constantFrom('gzip', 'br', 'deflate', 'zstd', 'identity', 'x').map((type) =>
    replacing('content-encoding', type),
  ),
  tuple(constantFrom(...NAMES), badHeaderValue).map(([name, value]) => replacing(name, value)),
  constantFrom(...WHOLE).map(([name, value]) => replacing(name, value)),
  constantFrom(...WHOLE).map(([name, value]): Mutation => (draft) => ({
    ...draft,
    headers: [...draft.headers, [name, value]],
  })),
  constantFrom('authorization', 'content-type').map((gone): Mutation => (draft) => ({
    ...draft,
    headers: draft.headers.filter(([name]) => name !== gone),
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

/** One field changed, left out, added, or named twice. */
function otherField(names: string[]): Arbitrary<Mutation> {
  const name = names.length === 0 ? constant('x') : constantFrom(...names)
  const token = oneof(
    { weight: 5, arbitrary: badToken },
    {
      weight: 1,
      arbitrary: constantFrom(...OTHERS, NOBODYS, '@{upper.customer}').map((id) => JSON.stringify(id)),
    },
  )
  const change = (edit: (fields: [string, string][]) => [string, string][]): Mutation => {
    return (draft) => ({ ...draft, fields: edit(draft.fields ?? []) })
  }
  const without = (fields: [string, string][], gone: string) => fields.filter(([each]) => each !== gone)
  return oneof(
    {
      weight: 6,
      arbitrary: tuple(name, token).map(([each, json]) =>
        change((fields) => [...without(fields, each), [each, json]]),
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

function spoiling(spoil: (body: string) => string): Mutation {
  return (draft) => ({ ...draft, fields: draft.fields ?? [], spoil: [...draft.spoil, spoil] })
}

/** The whole body changed: cut, compressed, wrapped, or something else altogether. */
const otherBytes: Arbitrary<Mutation> = oneof(
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

/** A body where none is known. */
const strayBody: Arbitrary<Mutation> = badToken.map((token) => (draft) => ({
  ...replacing('content-type', 'application/json')(draft),
  fields: [],
  spoil: [() => binary(token)],
}))

function written(operation: string, method: string, draft: Draft): Sent {
  const { path, query, headers, fields, spoil, framing } = draft
  const json = fields && `{${fields.map(([name, value]) => `${JSON.stringify(name)}:${value}`).join(',')}}`
  const body = json === null ? null : spoil.reduce((now, change) => change(now), binary(json))
  // A request line is ASCII: what is beyond it goes over the wire percent-encoded.
  const target = `${path}${query}`.replaceAll(/[^\x21-\x7e]/gu, (each) => encodeURIComponent(each))
  return { operation, method, target, headers, body, framing }
}

/** The names of the fields that the body of an operation knows. */
function namesOf(document: any, route: DocumentedRoute): string[] {
  const schema = bodySchema(document, route)
  return Object.keys(schema?.properties ?? {})
}

function bodySchema(document: any, { operation }: DocumentedRoute): any {
  const content = operation.requestBody?.content['application/json'].schema
  if (content === undefined) return null
  const schema = resolved(document, content)
  const choices = (schema.anyOf ?? [schema]).map((each: any) => resolved(document, each))
  return choices.find((each: any) => each.type === 'object') ?? null
}

function resolved(document: any, schema: any): any {
  if (typeof schema.$ref !== 'string') return schema
  const path = schema.$ref.slice(2).split('/')
  return resolved(
    document,
    path.reduce((value: any, name: string) => value[name], document),
  )
}

function validObject(document: any, schema: any): Arbitrary<Record<string, unknown>> {
  const required = new Set<string>([...(schema.required ?? []), 'idempotency_key'])
  const fields = Object.entries<any>(schema.properties ?? {}).map(([name, each]) => {
    const value = validValue(document, each, name).map((valid) => [name, valid] as const)
    return required.has(name) ? value : option(value, { freq: 2 })
  })
  return tuple(...fields).map((pairs) => Object.fromEntries(pairs.filter((pair) => pair !== null)))
}

/** A value that the schema takes; what it cannot say is known by the field's name. */
function validValue(document: any, given: any, name: string): Arbitrary<unknown> {
  const schema = resolved(document, given)
  const meant = MEANINGS[name]
  if (meant !== undefined && schema.additionalProperties === undefined) return meant
  if (schema.const !== undefined) return constant(schema.const)
  if (schema.enum !== undefined) return constantFrom(...schema.enum)
  const choices = schema.anyOf ?? schema.oneOf
  if (choices !== undefined) return oneof(...choices.map((each: any) => validValue(document, each, name)))
  switch (schema.type) {
    case 'null':
      return constant(null)
    case 'boolean':
      return boolean()
    case 'integer':
    case 'number':
      return integer({ min: schema.minimum ?? 1, max: Math.min(schema.maximum ?? 2000, 2000) })
    case 'array':
      return array(validValue(document, schema.items ?? {}, name), {
        minLength: schema.minItems ?? 0,
        maxLength: 3,
      })
    case 'object':
      return schema.properties === undefined
        ? dictionary(constantFrom('a', 'b'), string({ maxLength: 5 }), { maxKeys: 2 })
        : validObject(document, schema)
    case 'string':
      return validText(schema, name)
    default:
      return jsonValue({ maxDepth: 2 }).map((value) => tidy(value))
  }
}

function validText(schema: any, name: string): Arbitrary<string> {
  if (schema.format === 'uuid') return constantFrom('@{customer}', '@{held}', NOBODYS)
  if (schema.format === 'date-time')
    return constantFrom('2026-01-01T00:00:00Z', '2030-12-31T23:59:59.123456+01:00')
  if (schema.format === 'uri') return constant('https://example.com/')
  if (name === 'limit') return constantFrom('1', '2', '100')
  if (typeof schema.example === 'string') return constant(schema.example)
  return string({ unit: 'grapheme', maxLength: Math.min(schema.maxLength ?? 30, 30) })
}

// What the API refuses in any JSON is no part of a valid value.
function tidy(value: unknown): unknown {
  const text = JSON.stringify(value, (name, each: unknown) => {
    if (name === '__proto__') return undefined
    if (typeof each === 'number' && Number.isInteger(each) && !Number.isSafeInteger(each)) return 17
    return typeof each === 'string' ? each.toWellFormed().replaceAll('\0', '') : each
  })
  return JSON.parse(text) as unknown
}

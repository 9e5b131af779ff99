// Generates requests for an operation of the OpenAPI document: valid requests with up to two mutations.
import {
  type Arbitrary,
  array,
  boolean,
  constant,
  constantFrom,
  dictionary,
  integer,
  jsonValue,
  oneof,
  option,
  string,
  tuple,
  uniqueArray,
} from 'fast-check'
import type { DocumentedRoute } from '#test/documentation.ts'
import { makeConsistent, fieldValuesFor, withoutInvalidJson, type FieldValues } from './field-values.ts'
import { mutationFor, NONEXISTENT_ID, PAYMENTS, type Draft } from './mutations.ts'
import { binary, type Sent } from './wire.ts'

/**
 * A placeholder, filled when the request is sent. `@{customer}`, `@{authorized}` and so on: the id of a record of
 * `fixtures.ts`. `@{other.customer}`: the id of another tenant's record. `@{upper.authorized}`: the id in capitals.
 * `@{key}`: a used idempotency key. `@{fresh}`: a new key. Others: `@{api_key}`, `@{in_an_hour}`.
 */
export const PLACEHOLDER = /@\{([\w.]+)\}/g

/** All kinds of requests for one operation. */
export function requestsFor(document: any, route: DocumentedRoute): Arbitrary<Sent> {
  const operation = `${route.method} ${route.path}`
  const names = namesOf(document, route)
  return tuple(validDraft(document, route), array(mutationFor(route, names), { maxLength: 2 })).map(
    ([draft, mutations]) =>
      toRequest(
        operation,
        route.method,
        mutations.reduce((now, change) => change(now), draft),
      ),
  )
}

function validDraft(document: any, route: DocumentedRoute): Arbitrary<Draft> {
  const schemas = bodySchemas(document, route)
  const generator = { document, field_values: fieldValuesFor(route) }
  const body =
    schemas.length === 0
      ? constant(null)
      : oneof(...schemas.map((schema) => validObject(generator, schema))).map((value) =>
          Object.entries(makeConsistent(route, value)),
        )
  const queries = (route.operation.parameters ?? []).filter((each: any) => each.in === 'query')
  const query = uniqueArray(
    queries.length === 0
      ? constant(null)
      : constantFrom<any>(...queries).chain((each) =>
          validValue(generator, each.schema, each.name).map((value) => [each.name, value] as const),
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

// Encodes a text for a query, unless it is a placeholder.
function escaped(text: string): string {
  return /^@\{[\w.]+\}$/.test(text) ? text : encodeURIComponent(text.toWellFormed())
}

/** Fixtures by path prefix, in the states that the operations need, most likely first. */
const FIXTURES_BY_PATH: Record<string, string[]> = {
  '/v1/customers/': ['customer'],
  '/v1/recipients/': ['recipient'],
  '/v1/merchants/': ['merchant'],
  '/v1/refunds/': ['refund'],
  '/v1/disputes/': ['dispute'],
  '/v1/payouts/': ['payout', 'pending_payout'],
  '/v1/wallet/top_ups/': ['top_up'],
  '/v1/compliance/kyc/': ['kyc', 'kyc', 'decided_kyc'],
  '/v1/ai/tasks/': ['ai_task'],
  '/v1/messages/templates/': ['template', 'sms_template'],
  '/v1/messages/suppressions/': ['suppression'],
  '/v1/messages/': ['scheduled', 'email', 'sms', 'scheduled_sms'],
  '/v1/events/': ['event'],
  '/v1/webhook_endpoints/': ['endpoint', 'endpoint', 'disabled_endpoint'],
  '/v1/webhook_deliveries/': ['delivery'],
  '/v1/webhook_recoveries/': ['recovery'],
  '/v1/idempotency_keys/': ['key'],
}

/** The path with the id of a fixture. */
function pathFor({ method, path }: DocumentedRoute): Arbitrary<string> {
  if (!path.includes('{')) return constant(path)
  const [, names] = Object.entries(FIXTURES_BY_PATH).find(([prefix]) => path.startsWith(prefix)) ?? []
  const own = names?.map((name) => `@{${name}}`) ?? paymentsFor(method, path)
  // An id is also sent in capitals, which is the same id. A key in capitals would be another key.
  const ids = path.includes('{key}')
    ? own
    : [...own, ...own, NONEXISTENT_ID, ...own.slice(0, 1).map((id) => id.replace('@{', '@{upper.'))]
  return constantFrom(...ids).map((id) => path.replace(/\{\w+\}/, id))
}

function paymentsFor(method: string, path: string): string[] {
  if (!path.startsWith('/v1/payments/')) throw new Error(`no fixture for ${path}: see FIXTURES_BY_PATH`)
  if (method === 'GET') return PAYMENTS
  return path.endsWith('/refunds')
    ? ['@{captured}', '@{captured}', ...PAYMENTS]
    : ['@{authorized}', '@{authorized}', ...PAYMENTS]
}

function toRequest(operation: string, method: string, draft: Draft): Sent {
  const { path, query, headers, fields, spoil, framing } = draft
  const json = fields && `{${fields.map(([name, value]) => `${JSON.stringify(name)}:${value}`).join(',')}}`
  const body = json === null ? null : spoil.reduce((now, change) => change(now), binary(json))
  // A request line is ASCII. Other characters are percent-encoded.
  const target = `${path}${query}`.replaceAll(/[^\x21-\x7e]/gu, (each) => encodeURIComponent(each))
  return { operation, method, target, headers, body, framing }
}

/** The names of the fields of the operation's body. */
function namesOf(document: any, route: DocumentedRoute): string[] {
  return [...new Set(bodySchemas(document, route).flatMap(({ properties = {} }) => Object.keys(properties)))]
}

/** The object schemas of the operation's body; none without a body. */
function bodySchemas(document: any, { operation }: DocumentedRoute): any[] {
  const content = operation.requestBody?.content['application/json'].schema
  if (content === undefined) return []
  const flat = (unresolved: any): any[] => {
    const schema = resolved(document, unresolved)
    return (schema.anyOf ?? schema.oneOf)?.flatMap(flat) ?? [schema]
  }
  const objects = flat(content).filter(({ type }) => type === 'object')
  if (objects.length === 0) throw new Error(`the body of ${operation.operationId} is not an object`)
  return objects
}

function resolved(document: any, schema: any): any {
  if (typeof schema.$ref !== 'string') return schema
  const path = schema.$ref.slice(2).split('/')
  return resolved(
    document,
    path.reduce((value: any, name: string) => value[name], document),
  )
}

/** The input of the generators. */
type Generator = { document: any; field_values: FieldValues }

function validObject(generator: Generator, schema: any): Arbitrary<Record<string, unknown>> {
  const required = new Set<string>([...(schema.required ?? []), 'idempotency_key'])
  const fields = Object.entries<any>(schema.properties ?? {}).map(([name, each]) => {
    const value = validValue(generator, each, name).map((valid) => [name, valid] as const)
    return required.has(name) ? value : option(value, { freq: 2 })
  })
  return tuple(...fields).map((pairs) => Object.fromEntries(pairs.filter((pair) => pair !== null)))
}

/** A value that the schema accepts. Values that the schema does not describe are found by the field's name. */
function validValue(generator: Generator, unresolved: any, name: string): Arbitrary<unknown> {
  const schema = resolved(generator.document, unresolved)
  const field_value = generator.field_values[name]
  if (field_value !== undefined && schema.additionalProperties === undefined) return field_value
  if (schema.const !== undefined) return constant(schema.const)
  if (schema.enum !== undefined) return constantFrom(...schema.enum)
  const choices = Array.isArray(schema.type)
    ? schema.type.map((type: string) => ({ ...schema, type }))
    : (schema.anyOf ?? schema.oneOf)
  if (choices !== undefined) return oneof(...choices.map((each: any) => validValue(generator, each, name)))
  switch (schema.type) {
    case 'null':
      return constant(null)
    case 'boolean':
      return boolean()
    case 'integer':
    case 'number':
      return integer({ min: schema.minimum ?? 1, max: Math.min(schema.maximum ?? 2000, 2000) })
    case 'array':
      return array(validValue(generator, schema.items ?? {}, name), {
        minLength: schema.minItems ?? 0,
        maxLength: 3,
      })
    case 'object':
      return schema.properties === undefined
        ? dictionary(constantFrom('a', 'b'), string({ maxLength: 5 }), { maxKeys: 2 })
        : validObject(generator, schema)
    case 'string':
      return validText(schema)
    default:
      return jsonValue({ maxDepth: 2 }).map((value) => withoutInvalidJson(value))
  }
}

function validText(schema: any): Arbitrary<string> {
  if (schema.format === 'uuid') return constantFrom('@{customer}', '@{authorized}', NONEXISTENT_ID)
  if (schema.format === 'date-time')
    return constantFrom('2026-01-01T00:00:00Z', '2030-12-31T23:59:59.123456+01:00')
  if (schema.format === 'uri') return constant('https://example.com/')
  if (typeof schema.examples?.[0] === 'string') return constant(schema.examples[0])
  return string({ unit: 'grapheme', maxLength: Math.min(schema.maxLength ?? 30, 30) })
}

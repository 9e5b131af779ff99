// Checks that hold for every answer.
import { ERRORS, type ErrorCode } from '#core/errors.ts'
import { schemaOf, type DocumentedRoute } from '#test/documentation.ts'
import type { RawAnswer } from '#test/raw.ts'
import type { Target } from './target.ts'
import { INJECTED } from './values.ts'
import type { Sent } from './wire.ts'

/** Errors that are possible before routing, on any path and connection. */
const CODES_BEFORE_ROUTING = new Set<string>([
  'invalid_request',
  'unauthorized',
  'route_not_found',
  'request_timeout',
  'payload_too_large',
  'unsupported_media_type',
  'headers_too_large',
])
/** Documented errors that no input may cause. */
const FORBIDDEN_CODES = new Set<string>(['internal_error', 'database_unavailable', 'misconfigured_gateway'])
const REVEALING =
  /node_modules|PostgresError|ZodError|TypeError|SyntaxError at|at or near|\bat [\w.<>]+ \(|\/src\/\w+\/|root:x:|"devDependencies"/

export type Exchange = { sent: Sent; answer: RawAnswer; before: string; after: string }

/** Finds all problems of an API answer. */
export function problemsWith(target: Target, route: DocumentedRoute, exchange: Exchange): string[] {
  const { sent, answer, before, after } = exchange
  const { status, body, text, headers } = answer
  const request_text = [sent.target, ...sent.headers.flat(), sent.body ?? ''].join('\n')
  const problems: string[] = []
  const report = (problem: string) => problems.push(problem)

  if (status === 0) return ['the connection was closed without an answer']
  if (headers.has(INJECTED)) report('the answer has an injected header')
  if (target.other_tenant_texts.some((mark) => text.includes(mark) && !request_text.includes(mark)))
    report("the answer shows another tenant's record")
  if (REVEALING.test(text) && !REVEALING.test(decoded(request_text))) report('the answer reveals internals')

  // A mutated path may lead to a page or to another host. The answer is then not JSON.
  const is_other_document = status < 400 && body === undefined
  if (is_other_document) return isOn(route, sent.target) ? [...problems, 'the answer is not JSON'] : problems
  if (headers.get('x-request-id') === undefined) report('the answer has no x-request-id')
  if (status < 400) {
    if (isOn(route, sent.target)) problems.push(...schemaViolations(target, route, status, body))
    if (sent.method === 'GET' && after !== before) report('a read changed stored data')
    return [...problems, ...changedFields(route, answer, sent)]
  }

  const { code } = errorOf(body)
  problems.push(...malformedError(target, answer))
  if (FORBIDDEN_CODES.has(code)) report(`a request was answered with ${code}`)
  if (isOn(route, sent.target) && !route.codes.includes(code) && !CODES_BEFORE_ROUTING.has(code))
    report(`the route does not document ${code}`)
  // The error names its resource if the request was accepted and then declined by the processor.
  const accepted = Object.keys(body?.error?.context ?? {}).some((name) => name.endsWith('_id'))
  if (!accepted && after !== before) report(`a refused request (${status} ${code}) changed stored data`)
  return problems
}

/** Finds problems of an error answer that do not depend on its route. */
function malformedError(target: Target, { status, body, headers }: RawAnswer): string[] {
  const problems: string[] = []
  const { code, message, request_id } = errorOf(body)
  const row = ERRORS[code as ErrorCode] as readonly [number, string] | undefined
  if (row === undefined) problems.push(`the error code ${code} is not in the catalogue`)
  else if (row[0] !== status)
    problems.push(`${code} was answered with the status ${status}: the catalogue has ${row[0]}`)
  const anyRoute = target.document.components.schemas.ErrorAnswer
  if (anyRoute === undefined) problems.push('the OpenAPI document has no schema of errors')
  if (!/\w/.test(message)) problems.push('the error has no message')
  if (request_id !== headers.get('x-request-id'))
    problems.push("the error's request_id differs from the header x-request-id")
  if ([429, 503].includes(status) && headers.get('retry-after') === undefined)
    problems.push('the error has no retry-after')
  return problems
}

function errorOf(body: any): { code: string; message: string; request_id: string } {
  const { code = 'an error without a code', message = '', request_id = '' } = body?.error ?? {}
  return { code: String(code), message: String(message), request_id: String(request_id) }
}

const checkers = new WeakMap<DocumentedRoute, Map<number, ReturnType<typeof schemaOf>>>()

function schemaViolations(
  { document }: Target,
  route: DocumentedRoute,
  status: number,
  body: unknown,
): string[] {
  const by_status = checkers.get(route) ?? new Map<number, ReturnType<typeof schemaOf>>()
  checkers.set(route, by_status)
  if (route.operation.responses[status] === undefined) return [`the route documents no ${status}`]
  const schema = by_status.get(status) ?? schemaOf(document, route, status)
  by_status.set(status, schema)
  const { error } = schema.safeParse(body)
  return (error?.issues ?? []).map(({ path, message }) => `the answer's ${path.join('.')}: ${message}`)
}

/** True if the path has the segments of the route. */
function isOn({ path }: DocumentedRoute, target: string): boolean {
  const pattern = path.replaceAll(/\{\w+\}/g, '[^/]+')
  return new RegExp(`^${pattern}(?:[?#]|$)`).test(target)
}

/** Fields whose value the system chooses if they are null. */
const SYSTEM_CHOSEN_FIELDS = new Set(['amount_minor', 'model', 'from'])

/**
 * Fields that have another form in the answer: files without content, normalized addresses, times with microseconds.
 */
const TRANSFORMED_FIELDS = new Set(['attachments', 'to', 'cc', 'bcc', 'tags', 'send_at'])

/** The fields of a create that the answer does not return unchanged. */
function changedFields(route: DocumentedRoute, { status, body, headers }: RawAnswer, sent: Sent): string[] {
  if (status !== 201 || headers.has('idempotent-replayed') || sent.body === null) return []
  const sent_fields = JSON.parse(Buffer.from(sent.body, 'latin1').toString('utf8')) as Record<string, unknown>
  return Object.entries(sent_fields).flatMap(([name, value]) => {
    if (value === null && SYSTEM_CHOSEN_FIELDS.has(name)) return []
    if (!(name in body) || TRANSFORMED_FIELDS.has(name)) return []
    const answered: unknown = body[name]
    // Tokens are masked in answers.
    if (name === 'source' && typeof answered === 'string' && /\*{4}.{0,4}$/.test(answered)) return []
    const same =
      name === 'currency' || name.endsWith('_id')
        ? String(answered).toLowerCase() === String(value).toLowerCase()
        : canonical(answered) === canonical(value)
    return same
      ? []
      : [
          `${route.method} ${route.path} was sent ${name} ${canonical(value)} and answers ${canonical(answered)}`,
        ]
  })
}

/** JSON with sorted keys. */
function canonical(value: unknown): string {
  return JSON.stringify(value, (_name, each: unknown) =>
    typeof each === 'object' && each !== null && !Array.isArray(each)
      ? Object.fromEntries(Object.entries(each).toSorted(([a], [b]) => (a < b ? -1 : 1)))
      : Object.is(each, -0)
        ? 0
        : each,
  )
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

// Performs requests of the API: authentication, idempotency keys, and the operations.
import { runDue } from './due.ts'
import { nowMs, recordMs, type Engine } from './engine.ts'
import { invalidApiKey, parameterRefused, Refusal, sandboxFull, unknownUrl } from './errors.ts'
import { checkExpand, expandList, snapshotOf } from './expand.ts'
import { findAnswer, fingerprintOf, storeAnswer, type Answer, type StoredAnswer } from './idempotency.ts'
import { stripeId } from './ids.ts'
import { stringsOf } from './params.ts'
import { parseForm } from './parse.ts'
import { API_VERSION } from './render.ts'
import { refused, respond, type EngineResponse } from './responses.ts'
import { findRoute, type FoundRoute } from './routes.ts'
import { checkParams } from './rules.ts'

const MAX_KEY_LENGTH = 255
/** Requests that end an object need no room, because they make it. */
const ENDING = /\/(?:cancel|capture)$/

export type EngineRequest = {
  method: string
  /** The path without the query: `/v1/refunds`. */
  path: string
  /** The query without the question mark. */
  query: string
  body: string
  /** The headers by their names in lower case. */
  headers: Readonly<Record<string, string | string[] | undefined>>
}

/** A request before its operation. */
export type AdmittedRequest = {
  request: EngineRequest
  request_id: string
  /** The idempotency key; null unless the method is POST. */
  key: string | null
  fingerprint: string
} & (
  | {
      /** The route of the operation. */
      found: FoundRoute
      /** The stored answer of the idempotency key. */
      stored: StoredAnswer | null
      refusal: null
    }
  /** The refusal of a request that does not reach its operation. */
  | { found: null; stored: null; refusal: Answer }
)

/** Performs a request, with all of its changes, and returns the response. */
export function performRequest(engine: Engine, request: EngineRequest): EngineResponse {
  const admitted = admitRequest(engine, request)
  return respond(engine, admitted, answerRequest(engine, admitted))
}

/** The first half of `performRequest`, for a host that adds faults: checks the API key, path and idempotency key. */
export function admitRequest(engine: Engine, request: EngineRequest): AdmittedRequest {
  const { method, path, body } = request
  const key = method === 'POST' ? headerOf(request, 'idempotency-key') : null
  const request_id = stripeId('req_', 14)
  const fingerprint = key === null ? '' : fingerprintOf(path, body)
  const received = { request, request_id, key, fingerprint }
  try {
    checkApiKey(engine, request)
    const found = findRoute(method, path)
    if (!found) throw unknownUrl(method, path)
    if (key !== null && key.length > MAX_KEY_LENGTH)
      throw parameterRefused(`Idempotency keys can be up to ${MAX_KEY_LENGTH} characters`, undefined)
    const stored = key === null ? null : findAnswer(engine.idempotency, key, fingerprint, recordMs(engine))
    return { ...received, found, stored, refusal: null }
  } catch (error) {
    const refusal = refused(engine, request_id, error)
    return { ...received, found: null, stored: null, refusal }
  }
}

/** The second half: the refusal, the stored answer, or the answer of the operation, which is stored under the key. */
export function answerRequest(engine: Engine, admitted: AdmittedRequest): Answer {
  if (admitted.refusal !== null) return admitted.refusal
  if (admitted.stored !== null) return admitted.stored
  let answer: Answer
  try {
    answer = execute(engine, admitted, admitted.found)
  } catch (error) {
    answer = refused(engine, admitted.request_id, error)
    if (!(error instanceof Refusal) || !error.executed) return answer
  }
  storeUnderKey(engine, admitted, answer)
  return answer
}

/** Stores an answer under the idempotency key of the request, if it has one. */
export function storeUnderKey(
  engine: Engine,
  { key, fingerprint, request_id }: AdmittedRequest,
  { status, content }: Answer,
): void {
  if (key === null) return
  const answer = { status, fingerprint, request_id, at_ms: recordMs(engine) }
  storeAnswer(engine.idempotency, key, { ...answer, content })
  const written =
    typeof content === 'string'
      ? { text: content }
      : {
          object: content.object.revision,
          related: content.related.map((each) => each.revision),
          expand: content.expand,
        }
  engine.journal?.append({ answer: { key, ...answer, ...written } })
}

function checkApiKey({ api_key }: Engine, request: EngineRequest): void {
  const [scheme, credentials = ''] = headerOf(request, 'authorization')?.split(' ') ?? []
  const key =
    scheme?.toLowerCase() === 'basic'
      ? Buffer.from(credentials, 'base64').toString('utf8').split(':')[0]!
      : credentials
  if (key === '') throw invalidApiKey(null)
  if (api_key !== null && !api_key.split(',').includes(key)) throw invalidApiKey(key)
}

function execute(
  engine: Engine,
  { request, request_id, key }: AdmittedRequest,
  { route, ids }: FoundRoute,
): Answer {
  checkHeaders(request)
  const params = parseForm(request.method === 'GET' ? request.query : request.body)
  checkParams(params, route.accepts)
  const expand = params['expand'] === undefined ? [] : stringsOf(params, 'expand')
  if (route.object !== null) checkExpand(route.object, expand, 'list' in route)
  runDue(engine, nowMs(engine))
  const wanted = ids.id === '' ? 'creation' : 'change'
  const needs_room = request.method === 'POST' && !ENDING.test(request.path)
  if (needs_room && !engine.hooks.hasRoom(wanted)) throw sandboxFull()
  if ('one' in route) {
    const object = route.one(engine, { source: 'api', request_id, idempotency_key: key }, ids, params)
    return { status: 200, content: snapshotOf(engine.store, object, expand) }
  }
  if ('rendered' in route) return { status: 200, content: JSON.stringify(route.rendered(engine, ids)) }
  const list = route.list(engine, params, ids)
  expandList(list.data, expand, engine.store, engine.pages_url)
  return { status: 200, content: JSON.stringify(list) }
}

/** Refuses other API versions, and bodies that are not forms. */
function checkHeaders(request: EngineRequest): void {
  const version = headerOf(request, 'stripe-version')
  if (version !== null && version !== API_VERSION)
    throw parameterRefused(`Invalid Stripe API version: ${version}`, undefined)
  const type = headerOf(request, 'content-type')
  const is_form = type?.startsWith('application/x-www-form-urlencoded') === true
  if (request.method === 'POST' && request.body !== '' && !is_form)
    throw parameterRefused(
      'Invalid request (check that your POST content type is application/x-www-form-urlencoded).',
      undefined,
    )
}

/** A header by its name in lower case; null if it is missing or a list. */
function headerOf({ headers }: EngineRequest, name: string): string | null {
  const value = headers[name]
  return typeof value === 'string' ? value : null
}

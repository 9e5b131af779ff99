// Common controls of all emulators under `/_emulator/`: faults and the request log.
import {
  describeFault,
  hitsOf,
  release,
  removeFaults,
  waitForHits,
  type Fault,
  type Faults,
} from './faults.ts'
import { header, send, type Exchange } from './http.ts'
import { patternOf } from './pattern.ts'
import { findRequests, type RequestLog } from './requests.ts'

const WAIT_MS = 30_000

type Controlled = { faults: Faults; requests: RequestLog }

export type Control<Emulator, Query = Record<string, unknown>> = (
  emulator: Emulator,
  id: string,
  body: Record<string, unknown>,
  query: Query,
  exchange: Exchange,
) => unknown

/** Creates errors in the format of the provider. */
export type EmulatorErrors = {
  parameter: (message: string, param: string) => Error
  unknownUrl: (method: string, path: string) => Error
  of: (status: number, message: string) => Error
  /** The answer for an error that these functions have created; null for any other error. */
  answerOf: (error: unknown) => { status: number; body: string } | null
}

/** Controls by method and path: add, list, delete and release faults, wait for hits, list requests. */
export function faultControls(
  addFault: (faults: Faults, script: unknown) => Fault,
  errors: EmulatorErrors,
): [string, Control<Controlled>][] {
  return [
    ['GET healthz', () => ({ status: 'ok' })],
    ['POST faults', ({ faults }, _id, body) => describeFault(addFault(faults, body))],
    ['GET faults', ({ faults }) => ({ data: faults.list.map(describeFault), hits: hitsOf(faults, null) })],
    ['DELETE faults', ({ faults }) => (removeFaults(faults, null), { data: [] })],
    [
      'DELETE faults/:id',
      ({ faults }, id) => (removeFaults(faults, id), { data: faults.list.map(describeFault) }),
    ],
    [
      'POST release',
      ({ faults }, _id, body) => ({ released: release(faults, textOf(body, 'fault') ?? null) }),
    ],
    ['GET wait', ({ faults }, _id, _body, query) => wait(faults, query, errors)],
    ['GET requests', ({ requests }, _id, _body, query) => showRequests(requests, query, errors)],
  ]
}

/** Handles requests under `/_emulator/`. Bodies are JSON or forms; errors have the format of the API. */
export async function answerControls<Emulator, Query>(
  emulator: Emulator,
  exchange: Exchange,
  {
    controls,
    parseForm,
    errors,
  }: {
    controls: Map<string, Control<Emulator, Query>>
    parseForm: (text: string) => Query & Record<string, unknown>
    errors: EmulatorErrors
  },
): Promise<void> {
  const { method, path, query, body, request, response } = exchange
  try {
    const [resource, id = '', action] = path.slice('/_emulator/'.length).split('/')
    const control = controls.get(
      `${method} ${resource}${id === '' ? '' : '/:id'}${action === undefined ? '' : `/${action}`}`,
    )
    if (!control) throw errors.unknownUrl(method, path)
    const isForm = header(request, 'content-type')?.startsWith('application/x-www-form-urlencoded')
    const fields = isForm ? parseForm(body) : jsonBody(body, errors)
    const answer = await control(emulator, id, fields, parseForm(query), exchange)
    if (!response.headersSent) send(response, 200, {}, JSON.stringify(answer))
  } catch (error) {
    const answer = errors.answerOf(error)
    if (answer === null) console.error(error)
    const { status, body: text } = answer ?? errors.answerOf(errors.of(500, String(error)))!
    send(response, status, {}, text)
  }
}

/** A text field of a body or query, if there is one. */
export function textOf(fields: Record<string, unknown>, name: string): string | undefined {
  const value = fields[name]
  return typeof value === 'string' ? value : undefined
}

async function wait(
  faults: Faults,
  query: Record<string, unknown>,
  errors: EmulatorErrors,
): Promise<unknown> {
  const fault = textOf(query, 'fault') ?? null
  const { hits = 1, timeout_ms = WAIT_MS } = query
  if (await waitForHits(faults, fault, Number(hits), Number(timeout_ms)))
    return { hits: hitsOf(faults, fault) }
  throw errors.of(408, `Only ${hitsOf(faults, fault)} hits by now.`)
}

function showRequests(requests: RequestLog, query: Record<string, unknown>, errors: EmulatorErrors): unknown {
  const { path, since_ms } = query
  const data = findRequests(requests, {
    method: textOf(query, 'method'),
    path: patternOf(path, 'path', errors.parameter),
    idempotency_key: textOf(query, 'idempotency_key'),
    since_ms: since_ms === undefined ? undefined : Number(since_ms),
  })
  return {
    total: requests.total,
    counts: Object.fromEntries(requests.counts),
    count: data.length,
    replayed: data.filter((each) => each.replayed).length,
    data,
  }
}

/** The body of a control request: a JSON object, or empty. */
function jsonBody(body: string, errors: EmulatorErrors): Record<string, unknown> {
  if (body.trim() === '') return {}
  let value: unknown
  try {
    value = JSON.parse(body)
  } catch {
    value = null
  }
  if (typeof value === 'object' && value !== null && !Array.isArray(value))
    return value as Record<string, unknown>
  throw errors.of(400, 'The body must be a JSON object.')
}

// The API: authentication, scripted faults, triggers such as `[[500]]` in the text, and the completion.
import { createHash } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  completionBody,
  completionFor,
  SLOW_DELAY_MS,
  triggersIn,
  type CompletionInput,
} from '#providers/sandbox/ai/completion.ts'
import { nextFault } from '../shared/faults.ts'
import { header, send, type Exchange } from '../shared/http.ts'
import { respondWithFault, type EmulatedResponse } from '../shared/fault-response.ts'
import { logRequest, type LoggedRequest } from '../shared/requests.ts'
import { completionCount, storeCompletion, type AiEmulator } from './emulator.ts'
import { AiRefusal, tooManyRequests, AI_ERRORS, serverFailed, aiKeyRefused } from './errors.ts'
import { readCompletionInput } from './read-input.ts'

const MAX_LIMITED = 10_000

/** A request in progress. */
type ModelRequest = {
  exchange: Exchange
  key: string | null
  request_id: string
  log: LoggedRequest | null
}

/** `still_processing` is missing, because completions have no status. */
const REFUSALS = {
  error_500: () => refused(serverFailed()),
  conflict_409: () => refused(new AiRefusal(409, 'The request conflicts with another one.')),
  rate_limited_429: () => refused(tooManyRequests()),
  refuse_401: () => refused(aiKeyRefused()),
}

/** Handles every request except the page and the controls. */
export function answerAiApi(emulator: AiEmulator, exchange: Exchange): void {
  const { request, response, method, path } = exchange
  const request_id = `req_${crypto.randomUUID().replaceAll('-', '')}`
  const key = header(request, 'idempotency-key')
  const log = logRequest(emulator.requests, { method, path, idempotency_key: key, request_id })
  response.once('close', () => {
    if (log !== null && !response.writableEnded) log.refusal = 'the client closed the connection'
  })
  respond(emulator, { exchange, key, request_id, log }).catch((error: unknown) => {
    console.error(error)
    response.destroy()
  })
}

async function respond(emulator: AiEmulator, model_request: ModelRequest): Promise<void> {
  const { exchange, log } = model_request
  const { method, path, body } = exchange
  let input: CompletionInput
  try {
    checkKey(emulator, exchange)
    if (method !== 'POST' || !path.endsWith('/chat/completions')) throw AI_ERRORS.unknownUrl(method, path)
    input = readCompletionInput(body)
  } catch (error) {
    return reply(model_request, refused(error))
  }
  const fault = nextFault(emulator.faults, method, path, `${path}\n${body}`)
  if (fault === null) return reply(model_request, await complete(emulator, model_request, input))
  if (log) log.fault = fault.id
  await respondWithFault(emulator.faults, fault, {
    response: exchange.response,
    perform: () => complete(emulator, model_request, input),
    reply: (answer, retry_after_s) => reply(model_request, answer, retry_after_s),
    refusals: REFUSALS,
  })
}

function checkKey({ api_key }: AiEmulator, { request }: Exchange): void {
  const [scheme, credentials = ''] = header(request, 'authorization')?.split(' ') ?? []
  if (
    scheme?.toLowerCase() !== 'bearer' ||
    credentials === '' ||
    (api_key !== null && credentials !== api_key)
  )
    throw aiKeyRefused()
}

async function complete(
  emulator: AiEmulator,
  model_request: ModelRequest,
  input: CompletionInput,
): Promise<EmulatedResponse> {
  const { exchange, key } = model_request
  const { failed, limited, slow } = triggersIn(input.text)
  if (failed) return refused(serverFailed())
  if (limited && isFirst(emulator, key ?? hashOf(exchange.body))) return refused(tooManyRequests())
  if (slow) await sleep(SLOW_DELAY_MS, undefined, { ref: false })
  // The client has closed the connection.
  if (exchange.response.destroyed) return { status: 0, body: '' }
  const output = completionFor(input)
  const { model, input_tokens } = input
  const id = `chatcmpl-${crypto.randomUUID().replaceAll('-', '')}`
  const completion = {
    seq: completionCount(emulator) + 1,
    at: new Date().toISOString(),
    effect: 'completion' as const,
    id,
    model,
    format: input.format?.name ?? 'text',
    input_tokens,
    output_tokens: output.output_tokens,
    idempotency_key: key,
  }
  storeCompletion(emulator, completion)
  emulator.file?.append(completion)
  const answer = completionBody(input, output, { id, created: Math.floor(Date.now() / 1000) })
  return { status: 200, body: JSON.stringify(answer) }
}

function isFirst({ limited }: AiEmulator, name: string): boolean {
  if (limited.has(name)) return false
  if (limited.size >= MAX_LIMITED) limited.clear()
  limited.add(name)
  return true
}

function reply(
  { exchange, request_id, log }: ModelRequest,
  { status, body }: EmulatedResponse,
  retry_after_s: number | null = null,
): void {
  const { response } = exchange
  if (response.destroyed) return
  if (log) {
    log.status = status
    if (status >= 400) log.refusal = (JSON.parse(body) as { error: { message: string } }).error.message
  }
  const retry_header: Record<string, string> =
    retry_after_s === null ? {} : { 'retry-after': String(retry_after_s) }
  send(response, status, { 'x-request-id': request_id, ...retry_header }, body)
}

function refused(error: unknown): EmulatedResponse {
  const answer = AI_ERRORS.answerOf(error)
  if (answer === null) console.error(error)
  return answer ?? refused(serverFailed())
}

function hashOf(body: string): string {
  return createHash('sha256').update(body).digest('hex')
}

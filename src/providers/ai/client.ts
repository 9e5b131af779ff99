// OpenAI's official SDK over the guarded HTTP client, for any server that implements its API.
import { OpenAI } from 'openai'
import type { AiAnswer, AiCall, AiProvider } from '../ai.ts'
import { NoAnswer, openHttp, type FinishedCall, type HttpClient } from '../http.ts'
import { toAnswer } from './answers.ts'
import { classifyAiError } from './classify.ts'
import { currentPermit, permits } from '../permit.ts'
import { messagesOf, responseFormatOf } from './prompts.ts'

export type AiOptions = {
  /** The URL of the API, with the path before `/chat/completions`. */
  base_url: string
  api_key: string
  /** Default model of calls. */
  model: string
  /** The server's parameter for the limit of output tokens. */
  max_tokens_field: 'max_completion_tokens' | 'max_tokens'
  /** The limit of a complete call. Default: the deadline of the job. */
  deadline_ms?: number
  /**
   * The delay after which a call without an answer causes a second request, which checks whether the server is
   * reachable.
   */
  server_check_delay_ms?: number
  onCall?: (call: FinishedCall) => void
}

/** The size of the longest accepted output with every character escaped. */
const MAX_RESPONSE_BYTES = 1.5 * 1024 * 1024
/**
 * The margin of the SDK's own timeout. The deadline must pass first, because it closes the connection and reports the
 * cause.
 */
const SDK_TIMEOUT_MARGIN_MS = 10_000
/**
 * An answer may take two minutes and arrives in one piece, so a slow call does not show whether the server is
 * reachable. After this delay the list of models is requested, because a server answers that request fast.
 */
const SERVER_CHECK_DELAY_MS = 30_000
const LIST_TIMEOUT_MS = 10_000
const NO_USAGE = { model: null, usage: null }

/** A client for one server and key. */
export function openAi(options: AiOptions): AiProvider & { close(): Promise<void> } {
  const { base_url, deadline_ms = 600_000, server_check_delay_ms = SERVER_CHECK_DELAY_MS } = options
  const http = openHttp(base_url, { max_response_bytes: MAX_RESPONSE_BYTES })
  const sdk = new OpenAI({
    apiKey: options.api_key,
    baseURL: base_url,
    fetch: fetchThrough(http, base_url, deadline_ms),
    timeout: deadline_ms + SDK_TIMEOUT_MARGIN_MS,
    maxRetries: 0,
    // The SDK writes no log, because a log would contain requests, and takes no values from its environment variables.
    logLevel: 'off',
    adminAPIKey: null,
    organization: null,
    project: null,
    webhookSecret: null,
  })

  const checkServer = createServerCheck(http, options)

  async function requestCompletion(call: AiCall, key: string, signal: AbortSignal): Promise<AiAnswer> {
    const { max_output_tokens } = call
    const stop_signal = AbortSignal.any([signal, currentPermit().signal])
    try {
      const completion = await sdk.chat.completions.create(
        {
          model: call.model ?? options.model,
          messages: messagesOf(call.input),
          ...(max_output_tokens !== null && { [options.max_tokens_field]: max_output_tokens }),
          ...responseFormatOf(call.input),
        },
        { signal, headers: { 'Idempotency-Key': key } },
      )
      return await toAnswer(call, completion, stop_signal)
    } catch (error) {
      if (stop_signal.aborted && error === stop_signal.reason)
        return {
          outcome: {
            kind: 'ambiguous',
            reason: 'the call was stopped before the answer was checked',
            replayed: false,
          },
          ...NO_USAGE,
        }
      return { outcome: classifyAiError(error), ...NO_USAGE }
    }
  }

  return {
    name: 'ai',
    async complete(call, key, signal) {
      const started = performance.now()
      // The check needs no permit of the job, because it changes nothing at the server.
      const check_timer = permits.exit(() => setTimeout(() => void checkServer(), server_check_delay_ms))
      const answer = await requestCompletion(call, key, signal).finally(() => clearTimeout(check_timer))
      options.onCall?.({
        operation: 'complete',
        outcome: answer.outcome.kind,
        duration_ms: performance.now() - started,
        ...(answer.outcome.kind === 'ambiguous' &&
          answer.outcome.late === true && { health: 'late' as const }),
        ...(signal.aborted && { health: 'unknown' as const }),
      })
      return answer
    },
    close: () => http.close(),
  }
}

/**
 * Requests the list of models. Reports only failures: a server that lists its models may still fail to answer tasks.
 */
function createServerCheck(http: HttpClient, { api_key, onCall }: AiOptions): () => Promise<void> {
  let is_listing = false
  return async () => {
    if (is_listing) return
    is_listing = true
    const started = performance.now()
    const request = {
      path: '/models',
      method: 'GET' as const,
      headers: { authorization: `Bearer ${api_key}` },
    }
    try {
      await http.send(request, LIST_TIMEOUT_MS)
    } catch (error) {
      // Any answer proves that the server is reachable.
      if (!(error instanceof NoAnswer) || error.status !== null) return
      const duration_ms = performance.now() - started
      onCall?.({ operation: 'list', outcome: 'retry', duration_ms, health: 'late' })
    } finally {
      is_listing = false
    }
  }
}

/** A `fetch` for the SDK that sends through `http`. `http` checks the job's permit and ignores the host of the URL. */
function fetchThrough(http: HttpClient, base_url: string, deadline_ms: number): typeof fetch {
  const prefix = new URL(base_url).pathname.replace(/\/+$/, '')
  return async (input, init = {}) => {
    const { pathname, search } = new URL(input instanceof Request ? input.url : input)
    const request = {
      path: pathname.slice(prefix.length) + search,
      method: 'POST' as const,
      headers: Object.fromEntries(new Headers(init.headers)),
      body: typeof init.body === 'string' ? init.body : null,
    }
    const { status, headers, body } = await http.send(request, deadline_ms, init.signal ?? undefined)
    const retry_after = headers['retry-after']
    return new Response(JSON.stringify(body), {
      status,
      headers: {
        'content-type': 'application/json',
        ...(retry_after !== undefined && { 'retry-after': retry_after }),
      },
    })
  }
}

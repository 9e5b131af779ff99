// Requests completions from any server that implements OpenAI's API.
import type { AiAnswer, AiCall, AiProvider } from '../ai.ts'
import { NoAnswer, openHttp, type FinishedCall, type HttpClient } from '../http.ts'
import { toAnswer } from './answers.ts'
import { classifyAiError, classifyAiStatus } from './classify.ts'
import { currentPermit, permits } from '../permit.ts'
import { messagesOf, responseFormatOf } from './prompts.ts'

export type AiOptions = {
  /** The URL of the API, with the path before `/chat/completions`. */
  base_url: string
  /** Read for each call, so that it may be replaced. */
  readonly api_key: string
  /** Default model of calls. */
  model: string
  /** The server's parameter for the limit of output tokens. */
  max_tokens_field: 'max_completion_tokens' | 'max_tokens'
  /** The transport instead of a connection to the server: that of a sandbox. */
  http?: HttpClient
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
export const MAX_AI_RESPONSE_BYTES = 1.5 * 1024 * 1024
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
  const http = options.http ?? openHttp(base_url, { max_response_bytes: MAX_AI_RESPONSE_BYTES })
  const checkServer = createServerCheck(http, options)

  async function requestCompletion(call: AiCall, key: string, signal: AbortSignal): Promise<AiAnswer> {
    const stop_signal = AbortSignal.any([signal, currentPermit().signal])
    const request = {
      path: '/chat/completions',
      method: 'POST' as const,
      headers: {
        authorization: `Bearer ${options.api_key}`,
        'content-type': 'application/json',
        'idempotency-key': key,
        'user-agent': 'sluice',
      },
      body: JSON.stringify(completionRequest(call, options)),
    }
    try {
      const answer = await http.send(request, deadline_ms, signal)
      if (answer.status < 200 || answer.status >= 300)
        return { outcome: classifyAiStatus(answer), ...NO_USAGE }
      return await toAnswer(call, answer.body, stop_signal)
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
      if (signal.aborted)
        return {
          outcome: { kind: 'ambiguous', reason: 'the call was aborted', replayed: false },
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

/** The body of a request for a completion. */
export function completionRequest(
  { input, model, max_output_tokens }: AiCall,
  { model: default_model, max_tokens_field }: Pick<AiOptions, 'model' | 'max_tokens_field'>,
) {
  return {
    model: model ?? default_model,
    messages: messagesOf(input),
    ...(max_output_tokens !== null && { [max_tokens_field]: max_output_tokens }),
    ...responseFormatOf(input),
  }
}

/**
 * Requests the list of models. Reports only failures: a server that lists its models may still fail to answer tasks.
 */
function createServerCheck(http: HttpClient, options: AiOptions): () => Promise<void> {
  let is_listing = false
  return async () => {
    if (is_listing) return
    is_listing = true
    const started = performance.now()
    const request = {
      path: '/models',
      method: 'GET' as const,
      headers: { authorization: `Bearer ${options.api_key}` },
    }
    try {
      await http.send(request, LIST_TIMEOUT_MS)
    } catch (error) {
      // Any answer proves that the server is reachable.
      if (!(error instanceof NoAnswer) || error.status !== null) return
      const duration_ms = performance.now() - started
      options.onCall?.({ operation: 'list', outcome: 'retry', duration_ms, health: 'late' })
    } finally {
      is_listing = false
    }
  }
}

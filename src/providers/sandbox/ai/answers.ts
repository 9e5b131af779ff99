// Answers requests for completions, as a server with OpenAI's API does.
import { setTimeout as sleep } from 'node:timers/promises'
import {
  completionBody,
  completionFor,
  SLOW_DELAY_MS,
  tokensOf,
  triggersIn,
  type CompletionInput,
} from './completion.ts'

/** The parts of our own requests that determine the answer. */
type OwnRequest = {
  model: string
  messages: { role: string; content: string }[]
  response_format?: { json_schema?: { name: string; schema: Record<string, unknown> } }
  max_completion_tokens?: number
  max_tokens?: number
}

type AiResponse = { status: number; headers: Record<string, string>; body: string }

/** Requests that have got the refusal that is triggered once. More are forgotten, and refused once more. */
const MAX_LIMITED = 10_000

/** A model without limits of its own. */
export function createModel(): (
  request: { path: string; key: string; body: string },
  signal: AbortSignal,
) => Promise<AiResponse> {
  const limited_keys = new Set<string>()
  return async ({ path, key, body }, signal) => {
    if (!path.endsWith('/chat/completions')) return respond(200, { data: [] })
    const input = inputOf(JSON.parse(body) as OwnRequest)
    const { failed, limited, slow } = triggersIn(input.text)
    if (failed) return refused(500, 'The server had an error.')
    if (limited && !limited_keys.has(key)) {
      if (limited_keys.size >= MAX_LIMITED) limited_keys.clear()
      limited_keys.add(key)
      return refused(429, 'Rate limit reached.')
    }
    if (slow) await sleep(SLOW_DELAY_MS, undefined, { signal, ref: false })
    const id = `chatcmpl-${crypto.randomUUID().replaceAll('-', '')}`
    const created = Math.floor(Date.now() / 1000)
    return respond(200, completionBody(input, completionFor(input), { id, created }))
  }
}

function inputOf({ model, messages, response_format, ...limits }: OwnRequest): CompletionInput {
  return {
    model,
    text: messages.findLast(({ role }) => role === 'user')?.content ?? '',
    format: response_format?.json_schema ?? null,
    max_tokens: limits.max_completion_tokens ?? limits.max_tokens ?? null,
    input_tokens: messages.reduce((sum, { content }) => sum + tokensOf(content), 0),
  }
}

function refused(status: number, message: string): AiResponse {
  const type = status < 500 ? 'invalid_request_error' : 'server_error'
  return respond(status, { error: { message, type, param: null, code: null } })
}

function respond(status: number, body: object): AiResponse {
  return { status, headers: {}, body: JSON.stringify(body) }
}

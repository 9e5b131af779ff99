// What a model answered, checked before it is believed.
import type { OpenAI } from 'openai'
import type { Json } from '#core/db.ts'
import { problemOfNumber, storable } from '#core/json.ts'
import type { AiAnswer, AiCall } from '../ai.ts'
import { declined } from './classify.ts'
import { whyInvalid } from './validation.ts'

const LONGEST_OUTPUT_BYTES = 256 * 1024
const NO_SECRETS: ReadonlySet<string> = new Set()

/**
 * The outcome of an answer. Nothing of its text is in a message. Rejects with the reason of `signal` when that aborts
 * before the answer is checked.
 */
export async function toAnswer(
  call: AiCall,
  completion: OpenAI.Chat.ChatCompletion,
  signal: AbortSignal,
): Promise<AiAnswer> {
  const told = { model: modelOf(completion), usage: usageOf(completion.usage) }
  const [choice] = Array.isArray(completion.choices) ? completion.choices : []
  const message: Partial<OpenAI.Chat.ChatCompletionMessage> | null | undefined = choice?.message
  if (choice == null || message == null)
    return { outcome: { kind: 'ambiguous', reason: 'the answer has no message', replayed: false }, ...told }
  if (choice.finish_reason === 'content_filter' || Boolean(message.refusal))
    return { outcome: declined('ai_refused', 'The model declined.'), ...told }
  if (choice.finish_reason === 'length')
    return { outcome: invalid('The answer was cut off at the limit of output tokens.'), ...told }
  if (typeof message.content !== 'string' || message.content === '')
    return { outcome: invalid('The model answered no text.'), ...told }
  const output = await outputOf(call, message.content, signal)
  if (typeof output === 'string') return { outcome: invalid(output), ...told }
  return { outcome: { kind: 'done', value: { output } }, ...told }
}

function invalid(message: string) {
  return declined('ai_invalid_output', message)
}

/** The output of a task; a text says why there is none. */
async function outputOf(
  { tenant_id, input }: AiCall,
  text: string,
  signal: AbortSignal,
): Promise<{ [name: string]: Json } | string> {
  if (Buffer.byteLength(text) > LONGEST_OUTPUT_BYTES) return 'The answer is longer than 256 KiB.'
  switch (input.kind) {
    case 'generate':
      return { text: storable(text, NO_SECRETS) as string }
    case 'classify': {
      const { value: answered } = parsed(text)
      const named =
        typeof answered === 'object' && answered !== null ? (answered as { label?: unknown }).label : answered
      // Servers that know no response format answer the bare label.
      const label = input.labels.find((each) => each === named || each === text.trim())
      return label === undefined ? 'The answer is none of the labels.' : { label }
    }
    default: {
      const { value, lossy } = parsed(text)
      if (lossy !== undefined) return `The answer cannot be kept as it is: ${lossy}`
      const data = storable(value, NO_SECRETS)
      if (data === undefined) return 'The answer is no JSON, or cannot be stored.'
      const wrong = await whyInvalid(tenant_id, { schema: input.schema, data }, signal)
      return wrong ?? { data: data as Json }
    }
  }
}

/** No value: it is no JSON. `lossy`: why one of its numbers is not the one that the text says. */
function parsed(text: string): { value?: unknown; lossy?: string } {
  const problems: string[] = []
  try {
    const value: unknown = JSON.parse(text, (_name, each: unknown) => {
      const problem = typeof each === 'number' ? problemOfNumber(each) : null
      if (problem !== null) problems.push(problem)
      return each
    })
    const [lossy] = problems
    return lossy === undefined ? { value } : { lossy }
  } catch {
    return {}
  }
}

function modelOf({ model }: OpenAI.Chat.ChatCompletion): string | null {
  return typeof model === 'string' && model !== '' ? model.slice(0, 255).toWellFormed() : null
}

function usageOf(usage: OpenAI.CompletionUsage | undefined): AiAnswer['usage'] {
  const { prompt_tokens, completion_tokens } = usage ?? {}
  return isCount(prompt_tokens) && isCount(completion_tokens)
    ? { input_tokens: prompt_tokens, output_tokens: completion_tokens }
    : null
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) >= 0
}

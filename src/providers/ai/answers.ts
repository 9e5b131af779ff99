// Validates the answer of a model.
import { z } from 'zod'
import type { Json } from '#core/db.ts'
import { problemOfNumber, toStorableJson } from '#core/json.ts'
import type { AiAnswer, AiCall } from '../ai.ts'
import { declined } from './classify.ts'
import { findSchemaViolation } from './validation.ts'

const MAX_OUTPUT_BYTES = 256 * 1024
const NO_SECRETS: ReadonlySet<string> = new Set()

const count = z.int().min(0)
/** What is read of a completion. A field of another form counts as missing. */
const completion = z.object({
  model: z.string().min(1).nullable().catch(null),
  usage: z.object({ prompt_tokens: count, completion_tokens: count }).nullable().catch(null),
  choices: z.tuple([z.unknown()], z.unknown()).nullable().catch(null),
})
const choice = z.object({
  finish_reason: z.string().nullable().catch(null),
  message: z.object({ content: z.string().nullable().catch(null), refusal: z.unknown() }),
})

/**
 * Validates the answer of a model and returns the outcome. Messages never contain the text of the answer. Rejects with
 * the reason of `signal` if the signal aborts before the answer is validated.
 */
export async function toAnswer(
  call: AiCall,
  body: Record<string, unknown>,
  signal: AbortSignal,
): Promise<AiAnswer> {
  const { model, usage, choices } = completion.parse(body)
  const report = {
    model: model?.slice(0, 255).toWellFormed() ?? null,
    usage: usage && { input_tokens: usage.prompt_tokens, output_tokens: usage.completion_tokens },
  }
  const { data: { finish_reason, message } = {} } = choice.safeParse(choices?.[0])
  if (message === undefined)
    return { outcome: { kind: 'ambiguous', reason: 'the answer has no message', replayed: false }, ...report }
  if (finish_reason === 'content_filter' || Boolean(message.refusal))
    return { outcome: declined('ai_refused', 'The model declined.'), ...report }
  if (finish_reason === 'length')
    return { outcome: invalidOutput('The answer was cut off at the limit of output tokens.'), ...report }
  if (message.content === null || message.content === '')
    return { outcome: invalidOutput('The model returned no text.'), ...report }
  const output = await outputOf(call, message.content, signal)
  if (typeof output === 'string') return { outcome: invalidOutput(output), ...report }
  return { outcome: { kind: 'done', value: { output } }, ...report }
}

function invalidOutput(message: string) {
  return declined('ai_invalid_output', message)
}

/** The output of a task, or a message that says why the answer is not usable. */
async function outputOf(
  { tenant_id, input }: AiCall,
  text: string,
  signal: AbortSignal,
): Promise<{ [name: string]: Json } | string> {
  if (Buffer.byteLength(text) > MAX_OUTPUT_BYTES) return 'The answer is longer than 256 KiB.'
  switch (input.kind) {
    case 'generate':
      return { text: toStorableJson(text, NO_SECRETS) as string }
    case 'classify': {
      const { value: answered } = parseJson(text)
      const named =
        typeof answered === 'object' && answered !== null ? (answered as { label?: unknown }).label : answered
      // Servers without support for response formats answer with the bare label.
      const label = input.labels.find((each) => each === named || each === text.trim())
      return label === undefined ? 'The answer is none of the labels.' : { label }
    }
    default: {
      const { value, number_problem } = parseJson(text)
      if (number_problem !== undefined) return `The answer cannot be stored exactly: ${number_problem}`
      const data = toStorableJson(value, NO_SECRETS)
      if (data === undefined) return 'The answer is not JSON, or cannot be stored.'
      const violation = await findSchemaViolation(tenant_id, { schema: input.schema, data }, signal)
      return violation ?? { data: data as Json }
    }
  }
}

/**
 * Parses a text. Without `value`, the text is not JSON. `number_problem`: why a number in the text cannot be
 * represented exactly.
 */
function parseJson(text: string): { value?: unknown; number_problem?: string } {
  const problems: string[] = []
  try {
    const value: unknown = JSON.parse(text, (_name, each: unknown) => {
      const problem = typeof each === 'number' ? problemOfNumber(each) : null
      if (problem !== null) problems.push(problem)
      return each
    })
    const [number_problem] = problems
    return number_problem === undefined ? { value } : { number_problem }
  } catch {
    return {}
  }
}

// Reads the parts of a request that determine the answer.
import { tokensOf, type CompletionInput } from '#providers/sandbox/ai/completion.ts'
import { AiRefusal } from './errors.ts'
import { readRequest } from './request.ts'

/** Reads a request. Throws AiRefusal if OpenAI refuses the request or this emulator does not support it. */
export function readCompletionInput(body: string): CompletionInput {
  const input = readRequest(objectOf(body))
  const { model, messages, response_format, stream, max_completion_tokens, max_tokens } = input
  if (stream === true) throw new AiRefusal(400, 'This emulator does not stream.', { param: 'stream' })
  const contents = messages.map(({ role, content }) => ({
    role,
    content: typeof content === 'string' ? content : JSON.stringify(content ?? ''),
  }))
  return {
    model,
    text: contents.findLast(({ role }) => role === 'user')?.content ?? '',
    format:
      response_format?.type === 'json_schema'
        ? { name: response_format.json_schema.name, schema: response_format.json_schema.schema ?? {} }
        : null,
    max_tokens: max_completion_tokens ?? max_tokens ?? null,
    input_tokens: contents.reduce((sum, { content }) => sum + tokensOf(content), 0),
  }
}

function objectOf(body: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(body)
    if (typeof value === 'object' && value !== null && !Array.isArray(value))
      return value as Record<string, unknown>
  } catch {
    // Text that is not JSON is refused below.
  }
  throw new AiRefusal(400, 'We could not parse the JSON body of your request.')
}

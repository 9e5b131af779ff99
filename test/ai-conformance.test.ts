// Our requests to AI servers, and the fields that we read of their answers, conform to the types of OpenAI's package.
import type { OpenAI } from 'openai'
import { expect, test } from 'vitest'
import { toAnswer } from '#providers/ai/answers.ts'
import { completionRequest } from '#providers/ai/client.ts'
import type { AiCall, AiInput } from '#providers/ai.ts'

const INPUTS: AiInput[] = [
  { kind: 'generate', prompt: 'Hello', system: 'Be brief.' },
  { kind: 'classify', text: 'Where is my parcel?', labels: ['delivery', 'refund'] },
  { kind: 'extract', text: 'It costs 5 euros.', schema: { type: 'object', properties: {} } },
]
const CONTENTS = { generate: 'Good day.', classify: '{"label":"delivery"}', extract: '{"price":5}' }

const callOf = (input: AiInput): AiCall => ({ tenant_id: 'a', input, model: null, max_output_tokens: 100 })

// A wrong field does not compile.
const requestOf = (input: AiInput): OpenAI.Chat.ChatCompletionCreateParamsNonStreaming =>
  completionRequest(callOf(input), { model: 'gpt-5-mini', max_tokens_field: 'max_completion_tokens' })

const completionOf = (content: string): OpenAI.Chat.ChatCompletion => ({
  id: 'chatcmpl-1',
  object: 'chat.completion',
  created: 1_700_000_000,
  model: 'gpt-5-mini-2025-08-07',
  choices: [
    {
      index: 0,
      finish_reason: 'stop',
      logprobs: null,
      message: { role: 'assistant', content, refusal: null },
    },
  ],
  usage: { prompt_tokens: 12, completion_tokens: 3, total_tokens: 15 },
})

test.for(INPUTS)(
  'the request and the answer of a $kind task conform to the types of the official package',
  async (input) => {
    expect(requestOf(input)).toMatchObject({ model: 'gpt-5-mini', max_completion_tokens: 100 })
    expect(requestOf(input).messages.length).toBeGreaterThan(0)
    const body = { ...completionOf(CONTENTS[input.kind]) }
    expect(await toAnswer(callOf(input), body, new AbortController().signal)).toEqual({
      outcome: { kind: 'done', value: { output: expect.any(Object) } },
      model: 'gpt-5-mini-2025-08-07',
      usage: { input_tokens: 12, output_tokens: 3 },
    })
  },
)

// The schema of a completion request. Names and bounds are those of `ChatCompletionCreateParamsBase` in openai 7 and of
// OpenAI's API reference.
import { z } from 'zod'
import { AiRefusal } from './errors.ts'

const anything = z.unknown().optional()
const content = z.union([z.string(), z.array(z.looseObject({ type: z.string() })).min(1)])
const name = z.string().regex(/^[a-zA-Z0-9_-]{1,64}$/)
const message = z.discriminatedUnion('role', [
  z.strictObject({ role: z.enum(['developer', 'system', 'user']), content, name: name.optional() }),
  z.looseObject({ role: z.literal('assistant'), content: content.nullish() }),
  z.strictObject({ role: z.literal('tool'), content, tool_call_id: z.string() }),
  z.strictObject({ role: z.literal('function'), content: z.string().nullable(), name }),
])
const format = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('text') }),
  z.strictObject({ type: z.literal('json_object') }),
  z.strictObject({
    type: z.literal('json_schema'),
    json_schema: z.strictObject({
      name,
      description: z.string().optional(),
      schema: z.record(z.string(), z.unknown()).optional(),
      strict: z.boolean().nullish(),
    }),
  }),
])
const tokens = z.int().min(1).nullish()

/** Metadata: up to 16 pairs, with names of up to 64 and values of up to 512 characters (`Metadata`). */
const metadata = z
  .record(z.string().max(64), z.string().max(512))
  .refine((pairs) => Object.keys(pairs).length <= 16)
  .nullish()

const requestSchema = z.strictObject({
  model: z.string().min(1),
  messages: z.array(message).min(1),
  audio: anything,
  frequency_penalty: z.number().min(-2).max(2).nullish(),
  function_call: anything,
  functions: anything,
  logit_bias: z.record(z.string(), z.int().min(-100).max(100)).nullish(),
  logprobs: z.boolean().nullish(),
  max_completion_tokens: tokens,
  max_tokens: tokens,
  metadata,
  modalities: z.array(z.enum(['text', 'audio'])).nullish(),
  moderation: anything,
  n: z.int().min(1).max(128).nullish(),
  parallel_tool_calls: z.boolean().optional(),
  prediction: anything,
  presence_penalty: z.number().min(-2).max(2).nullish(),
  prompt_cache_key: z.string().nullish(),
  prompt_cache_options: anything,
  prompt_cache_retention: z.enum(['in_memory', '24h']).nullish(),
  reasoning_effort: z.enum(['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max']).nullish(),
  response_format: format.optional(),
  safety_identifier: z.string().nullish(),
  seed: z.int().nullish(),
  service_tier: z.enum(['auto', 'default', 'flex', 'scale', 'priority', 'fast']).nullish(),
  stop: z.union([z.string(), z.array(z.string()).min(1).max(4)]).nullish(),
  store: z.boolean().nullish(),
  stream: z.boolean().nullish(),
  stream_options: anything,
  temperature: z.number().min(0).max(2).nullish(),
  tool_choice: anything,
  tools: z.array(anything).max(128).optional(),
  top_logprobs: z.int().min(0).max(20).nullish(),
  top_p: z.number().min(0).max(1).nullish(),
  user: z.string().optional(),
  verbosity: z.enum(['low', 'medium', 'high']).nullish(),
  web_search_options: anything,
})
type CompletionRequest = z.output<typeof requestSchema>

/** Parses a request. Throws AiRefusal for the first invalid parameter, as OpenAI does. */
export function readRequest(value: unknown): CompletionRequest {
  const parsed = requestSchema.safeParse(value)
  if (!parsed.success) {
    const { code, path, message: reason, ...issue } = parsed.error.issues[0]!
    if (code === 'unrecognized_keys') {
      const param = [...path, String((issue as { keys: string[] }).keys[0])].join('.')
      throw new AiRefusal(400, `Unknown parameter: '${param}'.`, { param, code: 'unknown_parameter' })
    }
    const param = path.join('.')
    throw new AiRefusal(400, `Invalid value for '${param}': ${reason}.`, { param, code: 'invalid_value' })
  }
  const { max_tokens, max_completion_tokens } = parsed.data
  if (max_tokens != null && max_completion_tokens != null) {
    const message = "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported."
    throw new AiRefusal(400, message, { param: 'max_tokens', code: 'invalid_parameter_combination' })
  }
  return parsed.data
}

// The body of a request that creates an AI task.
import { z } from 'zod'
import { anyJson } from '#core/json.ts'
import { findSchemaProblem, MAX_SCHEMA_BYTES } from '#domain/ai-tasks/json-schema.ts'
import type { AiTaskInput } from '#jobs/ai-tasks.ts'
import { FEW_VALUES_ERROR, hasFewValues, idempotencyKey, metadata } from '../../body.ts'

const MAX_TEXT_LENGTH = 200_000
const MAX_LABELS = 50
const ARTICLE = 'Ada Lovelace, born in 1815, wrote the first program.'

const longText = (description: string, example: string) =>
  z.string().min(1).max(MAX_TEXT_LENGTH).meta({ description, example })

const common = {
  model: z.string().min(1).max(255).nullish().meta({
    description: "The provider's name of the model. Defaults to the model of this installation.",
    example: 'gpt-5-mini',
  }),
  max_output_tokens: z.int().min(1).max(32_768).nullish().meta({
    description:
      'The maximum number of tokens of the answer. A longer answer is cut off, and the task fails.',
    example: 200,
  }),
  metadata,
  idempotency_key: idempotencyKey.meta({ example: 'ticket-17-topic' }).optional(),
}

const generateInput = z
  .strictObject({
    prompt: longText('What to write.', 'Write a haiku about queues.'),
    system: longText('The system prompt: who the model is and how it writes.', 'You are terse.').nullish(),
  })
  .meta({ id: 'GenerateInput', description: 'A prompt.' })

const classifyInput = z
  .strictObject({
    text: longText('The text to classify.', 'My card was charged twice.'),
    labels: z
      .array(z.string().min(1).max(100).meta({ description: 'A label.', example: 'billing' }))
      .min(2)
      .max(MAX_LABELS)
      .refine((labels) => new Set(labels).size === labels.length, { error: 'must differ from each other' })
      .meta({ description: 'The possible labels.', example: ['billing', 'delivery', 'other'] }),
  })
  .meta({ id: 'ClassifyInput', description: 'A text and its possible labels.' })

const extractInput = z
  .strictObject({
    text: longText('The text to extract data from.', ARTICLE),
    schema: z
      .record(z.string(), anyJson)
      .refine(hasFewValues, FEW_VALUES_ERROR)
      .superRefine((schema, check) => {
        const problem = findSchemaProblem(schema)
        if (problem !== null) check.addIssue({ code: 'custom', ...problem })
      })
      .meta({
        description: `A JSON Schema, draft 2020-12, that the data validates against; at most ${MAX_SCHEMA_BYTES / 1024} KiB and 1,000 values. \`$ref\` may refer to the schema itself only (\`#/$defs/...\`); \`$id\`, \`$anchor\`, \`$dynamicRef\`, \`$dynamicAnchor\`, \`$vocabulary\` and \`$async\` are refused. \`format\` is not checked.`,
        example: { type: 'object', properties: { born: { type: 'integer' } }, required: ['born'] },
      }),
  })
  .meta({ id: 'ExtractInput', description: 'A text, and the schema of the data to extract from it.' })

const kind = <Kind extends string>(name: Kind) =>
  z.literal(name).meta({ description: 'The kind of task.', example: name })

export const createBody = z
  .discriminatedUnion(
    'kind',
    [
      z.strictObject({
        kind: kind('generate'),
        input: generateInput.meta({ description: 'A prompt.' }),
        ...common,
      }),
      z.strictObject({
        kind: kind('classify'),
        input: classifyInput.meta({ description: 'A text and its possible labels.' }),
        ...common,
      }),
      z.strictObject({
        kind: kind('extract'),
        input: extractInput.meta({ description: 'A text, and the schema of the data to extract from it.' }),
        ...common,
      }),
    ],
    // Without a kind, the problems that all kinds share are reported.
    { unionFallback: true },
  )
  .meta({ id: 'CreateAiTask', description: 'The AI task to create.' })

/** The input of the job. */
export function inputOf(body: z.output<typeof createBody>): AiTaskInput {
  if (body.kind === 'generate')
    return { kind: body.kind, prompt: body.input.prompt, system: body.input.system ?? null }
  if (body.kind === 'classify') return { kind: body.kind, ...body.input }
  return { kind: body.kind, ...body.input }
}

export const AI_TASK_REQUESTS = {
  classify: {
    summary: 'Classify a text',
    value: {
      idempotency_key: 'ticket-17-topic',
      kind: 'classify',
      input: { text: 'My card was charged twice.', labels: ['billing', 'delivery', 'other'] },
    },
  },
  extract: {
    summary: 'Extract data from a text',
    value: {
      idempotency_key: 'article-17-person',
      kind: 'extract',
      input: {
        text: ARTICLE,
        schema: {
          type: 'object',
          properties: { name: { type: 'string' }, born: { type: 'integer' } },
          required: ['name', 'born'],
          additionalProperties: false,
        },
      },
    },
  },
  generate: {
    summary: 'Generate a text',
    value: {
      idempotency_key: 'haiku-17',
      kind: 'generate',
      input: { prompt: 'Write a haiku about queues.', system: 'You are terse.' },
      max_output_tokens: 200,
    },
  },
}

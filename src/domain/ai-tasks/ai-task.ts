// The AI task: its schema in rows, answers and events.
import { z } from 'zod'
import { anyJson } from '#core/json.ts'
import { AI_FAILURES } from '#core/outcome.ts'
import { timestamp } from '#core/time.ts'
import { idFields, keyField, trailingFields } from '../fields.ts'

const AI_TASK_KINDS = ['generate', 'classify', 'extract'] as const
export type AiTaskKind = (typeof AI_TASK_KINDS)[number]

/** The kind of a task, as a field and as a filter. */
export const aiTaskKind = z.enum(AI_TASK_KINDS).meta({
  id: 'AiTaskKind',
  description:
    'What the task returns. `generate`: a text. `classify`: one of the given labels. `extract`: data that follows a JSON Schema.',
  example: 'classify',
})

/** The status of a task, as a field and as a filter. */
export const aiTaskStatus = z.enum(['queued', 'running', 'succeeded', 'failed', 'canceled']).meta({
  id: 'AiTaskStatus',
  description:
    '`queued`: waits for its first or next attempt. `running`: an attempt is in progress. `succeeded`, `failed`, `canceled`: final.',
  example: 'succeeded',
})
type AiTaskStatus = z.output<typeof aiTaskStatus>

/** Whether the status is final. */
export const isFinalAiTaskStatus = (status: AiTaskStatus): boolean =>
  status !== 'queued' && status !== 'running'

const output = z.union([
  z
    .object({ text: z.string().meta({ description: 'The generated text.', example: 'Jobs wait in line.' }) })
    .meta({ id: 'GenerateOutput', description: 'The output of a `generate` task.' }),
  z
    .object({ label: z.string().meta({ description: 'One of the given labels.', example: 'billing' }) })
    .meta({ id: 'ClassifyOutput', description: 'The output of a `classify` task.' }),
  z
    .object({
      data: anyJson.meta({
        description: 'The extracted data, valid against the given JSON Schema.',
        example: { name: 'Ada Lovelace', born: 1815 },
      }),
    })
    .meta({ id: 'ExtractOutput', description: 'The output of an `extract` task.' }),
  z.null(),
])

/** A task in answers. The input is not shown: it may be personal, and is erased when the task is final. */
export const aiTaskSchema = z
  .object({
    ...idFields('task', '0198f6f3-77aa-7000-8000-123456789abc'),
    idempotency_key: keyField('ticket-17-topic'),
    kind: aiTaskKind,
    status: aiTaskStatus,
    model: z.string().nullable().meta({
      description: 'The model that answered. Until then, the requested model; null for the default.',
      example: 'gpt-5-mini',
    }),
    max_output_tokens: z
      .int()
      .nullable()
      .meta({ description: 'The maximum number of tokens of the answer, if you set one.', example: 200 }),
    output: output.meta({
      description:
        'The output, which depends on the kind. Null unless the task succeeded, after the retention period of outputs, and in lists.',
      example: { label: 'billing' },
    }),
    usage: z
      .object({
        input_tokens: z.int().nonnegative().meta({ description: 'Input tokens.', example: 57 }),
        output_tokens: z.int().nonnegative().meta({ description: 'Output tokens.', example: 6 }),
      })
      .meta({ id: 'AiTaskUsage', description: 'The tokens of the final attempt.' })
      .nullable()
      .meta({ description: 'The tokens of the final attempt; null if the provider reported none.' }),
    failure: z
      .object({
        code: z.enum(AI_FAILURES).meta({
          id: 'AiTaskFailureCode',
          description:
            '`ai_refused`: the model or its filter declined. `ai_invalid_output`: the answer does not fit the request. `ai_timeout`: no answer came in time. `ai_error`: the provider failed or refused the request.',
          example: 'ai_refused',
        }),
        message: z
          .string()
          .meta({ description: 'A description for people.', example: 'The model declined.' }),
      })
      .meta({ id: 'AiTaskFailure', description: 'Why a task failed.' })
      .nullable()
      .meta({ description: 'Why it failed; null if it has not.', example: null }),
    attempts: z.int().nonnegative().meta({ description: 'The number of attempts.', example: 1 }),
    started_at: timestamp.nullable().meta({ description: 'When the first attempt began.' }),
    finished_at: timestamp.nullable().meta({ description: 'When it ended; null while it is open.' }),
    ...trailingFields('AI tasks'),
  })
  .meta({ id: 'AiTask', description: 'A task for a language model.' })

export type AiTask = z.output<typeof aiTaskSchema>

/** A task in events. */
export const aiTaskEventSchema = aiTaskSchema
  .extend({
    output: aiTaskSchema.shape.output.meta({
      description:
        'The output, which depends on the kind. Null unless the task succeeded, after the retention period of outputs, and above 20 kB in lists of events.',
      example: { label: 'billing' },
    }),
  })
  .meta({ id: 'AiTaskEventData', description: 'The AI task as it was then.' })

/** The events of AI tasks: the name after `ai_task.`, and the description. */
export const AI_TASK_EVENTS = {
  created: 'An AI task was created.',
  succeeded: 'The task succeeded; `output` is the result.',
  failed: 'The task failed.',
  canceled: 'The task was canceled.',
} as const

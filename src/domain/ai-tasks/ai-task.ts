// The AI task: its schema in rows, answers and events.
import { z } from 'zod'
import { anyJson } from '#core/json.ts'
import { AI_FAILURES } from '#core/outcome.ts'
import { timestamp } from '#core/time.ts'
import { idFields, keyField, lastFields } from '../fields.ts'

const AI_TASK_KINDS = ['generate', 'classify', 'extract'] as const
export type AiTaskKind = (typeof AI_TASK_KINDS)[number]

/** The kind of a task, as a field and as a filter. */
export const aiTaskKind = z.enum(AI_TASK_KINDS).meta({
  id: 'AiTaskKind',
  description:
    '`generate`: a text. `classify`: one of the given labels. `extract`: data in the form of a JSON Schema.',
  example: 'classify',
})

/** The status of a task, as a field and as a filter. */
export const aiTaskStatus = z.enum(['queued', 'running', 'succeeded', 'failed', 'canceled']).meta({
  id: 'AiTaskStatus',
  description:
    '`queued`: waits, for its turn or after an attempt that came to nothing. `running`: an attempt is under way. `succeeded`, `failed`, `canceled`: the end.',
  example: 'succeeded',
})
type AiTaskStatus = z.output<typeof aiTaskStatus>

/** Whether a task never leaves this status. */
export const isFinal = (status: AiTaskStatus): boolean => status !== 'queued' && status !== 'running'

const output = z.union([
  z
    .object({ text: z.string().meta({ description: 'What was written.', example: 'Jobs wait in line.' }) })
    .meta({ id: 'GenerateOutput', description: 'Of a task of kind `generate`.' }),
  z
    .object({ label: z.string().meta({ description: 'One of the given labels.', example: 'billing' }) })
    .meta({ id: 'ClassifyOutput', description: 'Of a task of kind `classify`.' }),
  z
    .object({
      data: anyJson.meta({
        description: 'What the text says, valid by the given JSON Schema.',
        example: { name: 'Ada Lovelace', born: 1815 },
      }),
    })
    .meta({ id: 'ExtractOutput', description: 'Of a task of kind `extract`.' }),
  z.null(),
])

/** A task in answers. What it was asked is not shown: it may be personal, and is erased when the task is over. */
export const aiTaskSchema = z
  .object({
    ...idFields('task', '0198f6f3-77aa-7000-8000-123456789abc'),
    idempotency_key: keyField('ticket-17-topic'),
    kind: aiTaskKind,
    status: aiTaskStatus,
    model: z.string().nullable().meta({
      description: 'The model that answered; before, the one that was asked for, null for the usual one.',
      example: 'gpt-5-mini',
    }),
    max_output_tokens: z
      .int()
      .nullable()
      .meta({ description: 'The most tokens that the answer may have, if it was said.', example: 200 }),
    output: output.meta({
      description:
        'By its kind; null unless it succeeded, once it is older than outputs are kept, and in lists.',
      example: { label: 'billing' },
    }),
    usage: z
      .object({
        input_tokens: z.int().nonnegative().meta({ description: 'Of what was sent.', example: 57 }),
        output_tokens: z.int().nonnegative().meta({ description: 'Of what was answered.', example: 6 }),
      })
      .meta({ id: 'AiTaskUsage', description: 'The tokens of the attempt that ended the task.' })
      .nullable()
      .meta({ description: 'Tokens of the attempt that ended it; null where the provider told none.' }),
    failure: z
      .object({
        code: z.enum(AI_FAILURES).meta({
          id: 'AiTaskFailureCode',
          description:
            '`ai_refused`: the model or its filter declined. `ai_invalid_output`: the answer is not what was asked for. `ai_timeout`: no answer in time. `ai_error`: the provider failed or refused the request.',
          example: 'ai_refused',
        }),
        message: z.string().meta({ description: 'The same for people.', example: 'The model declined.' }),
      })
      .meta({ id: 'AiTaskFailure', description: 'Why a task failed.' })
      .nullable()
      .meta({ description: 'Why it failed; null unless it did.', example: null }),
    attempts: z.int().nonnegative().meta({ description: 'How often the provider was asked.', example: 1 }),
    started_at: timestamp.nullable().meta({ description: 'When the first attempt began.' }),
    finished_at: timestamp.nullable().meta({ description: 'When it ended; null while it has not.' }),
    ...lastFields('AI tasks'),
  })
  .meta({ id: 'AiTask', description: 'Something that a language model does.' })

export type AiTask = z.output<typeof aiTaskSchema>

/** A task in events: without its output, which may be personal and is kept in one place only. */
export const aiTaskEventSchema = aiTaskSchema
  .omit({ output: true })
  .meta({ id: 'AiTaskEventData', description: 'The AI task as it then stood, without its output.' })

/** The events of AI tasks, by the word after `ai_task.`, each with its meaning. */
export const AI_TASK_EVENTS = {
  created: 'An AI task was asked for.',
  succeeded: 'It is done: retrieve it for its output.',
  failed: 'It failed for good.',
  canceled: 'It was canceled.',
} as const

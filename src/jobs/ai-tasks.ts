// The job of AI tasks.
import { z } from 'zod'
import { AI } from '#core/config/providers.ts'
import { defineJob } from './job.ts'

/** The input of a task, from the JSON sealed in the request of its job. */
export const aiTaskInput = z
  .string()
  .transform((text, check): unknown => {
    try {
      return JSON.parse(text)
    } catch {
      check.addIssue({ code: 'custom', message: 'is not valid JSON' })
      return z.NEVER
    }
  })
  .pipe(
    z.discriminatedUnion('kind', [
      z.strictObject({ kind: z.literal('generate'), prompt: z.string(), system: z.string().nullable() }),
      z.strictObject({ kind: z.literal('classify'), text: z.string(), labels: z.array(z.string()) }),
      z.strictObject({
        kind: z.literal('extract'),
        text: z.string(),
        schema: z.record(z.string(), z.unknown()),
      }),
    ]),
  )
export type AiTaskInput = z.output<typeof aiTaskInput>

export const runAiTask = defineJob({
  name: 'ai_task.run',
  queue: 'ai',
  payload: z.object({ ai_task_id: z.uuid() }),
  call: {
    provider: AI.provider,
    operation: 'complete',
    held_with: 'creations',
    status: ['queued', 'running'],
    makes: null,
    // Repeating the call is harmless: no money moves.
    on_ambiguous: 'repeat',
    deadline_ms: 120_000,
    request: z.strictObject({
      model: z.string().nullable(),
      max_output_tokens: z.int().nullable(),
      /** The input may be personal: it is removed when the job finishes. */
      sealed: z.object({ input: z.string() }),
    }),
  },
  retry: { base_ms: 1_000, cap_ms: 30_000, lookup_delays_ms: [30_000] },
  max_attempts: 5,
})

export const aiTaskJobs = { runAiTask }

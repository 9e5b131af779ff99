// The route that starts an AI task.
import { createBatcher } from '#core/batch.ts'
import { aiTaskSchema, isFinalAiTaskStatus, type AiTask } from '#domain/ai-tasks/ai-task.ts'
import { requestAiTasks, type AiTaskRequest } from '#domain/ai-tasks/request.ts'
import { aiTaskInputContext } from '#domain/ai-tasks/sealed.ts'
import { runAiTask } from '#jobs/ai-tasks.ts'
import { accept, type ResourceReader } from '../../accept.ts'
import type { RouteApp, RouteContext } from '../../context.ts'
import { route } from '../../route.ts'
import { createBody, inputOf, AI_TASK_REQUESTS } from './body.ts'
import { AI_TASK_QUEUED, AI_TASK_RUNNING } from './examples.ts'

export function createAiTaskRoute(
  app: RouteApp,
  context: RouteContext,
  reader: ResourceReader<AiTask>,
): void {
  const { sql, vault } = context
  const create = createBatcher<AiTaskRequest, 'accepted' | 'key_used' | undefined>(
    'create_ai_task',
    async (requests) => {
      const results = await requestAiTasks(sql, requests)
      return requests.map(({ ai_task_id }) => results.get(ai_task_id))
    },
    { key: ({ tenant_id, idempotency_key }) => `${tenant_id} ${idempotency_key}` },
  )

  app.post(
    '/v1/ai/tasks',
    route({
      area: 'ai',
      scope: 'ai:write',
      tag: 'ai_tasks',
      operation_id: 'createAiTask',
      summary: 'Start an AI task',
      description:
        'A task that fails is not an error, even if you wait: check `status` and `failure`. The input is stored encrypted, never shown, and erased when the task is final.',
      body: createBody,
      large: 'counted',
      response: { 201: aiTaskSchema, 202: aiTaskSchema },
      waits: 'if_requested',
      key: 'required',
      examples: {
        requests: AI_TASK_REQUESTS,
        answer: AI_TASK_QUEUED,
        unfinished: AI_TASK_RUNNING,
      },
      errors: ['idempotency_key_reused'],
    }),
    async (request, reply) => {
      const { body } = request
      const { kind, model = null, max_output_tokens = null, metadata } = body
      return await accept(context, request, reply, {
        job: runAiTask,
        reader,
        body,
        step(requested, { id: ai_task_id }) {
          const sealing_context = aiTaskInputContext(requested.tenant_id, requested.job_id)
          const input = vault.seal(JSON.stringify(inputOf(body)), sealing_context)
          return create({ ...requested, ai_task_id, kind, model, max_output_tokens, metadata, input })
        },
        isFulfilled: ({ status }) => isFinalAiTaskStatus(status),
        showsFailure: () => true,
      })
    },
  )
}

// The route that starts an AI task.
import { batcher } from '#core/batch.ts'
import { newId } from '#core/ids.ts'
import { aiTaskSchema, isFinal, type AiTask } from '#domain/ai-tasks/ai-task.ts'
import { requestAiTasks, type AiTaskRequest } from '#domain/ai-tasks/request.ts'
import { aiTaskInputPlace } from '#domain/ai-tasks/sealed.ts'
import { runAiTask } from '#jobs/ai-tasks.ts'
import { accept, type Answers } from '../../accept.ts'
import type { RouteApp, RouteContext } from '../../context.ts'
import { route } from '../../route.ts'
import { createBody, inputOf, REQUESTS } from './body.ts'
import { AI_TASK_QUEUED, AI_TASK_RUNNING } from './examples.ts'

export function createAiTaskRoute(app: RouteApp, context: RouteContext, answers: Answers<AiTask>): void {
  const { sql, vault } = context
  const create = batcher<AiTaskRequest, 'accepted' | 'known' | undefined>(
    'create_ai_task',
    async (requests) => {
      const became = await requestAiTasks(sql, requests)
      return requests.map(({ ai_task_id }) => became.get(ai_task_id))
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
        'A task that fails is not an error, even if you wait: check `status` and `failure`. The input is stored encrypted, never shown, and erased when the task is over.',
      body: createBody,
      large: 'counted',
      response: { 201: aiTaskSchema, 202: aiTaskSchema },
      waits: 'if_asked',
      key: 'required',
      examples: {
        requests: REQUESTS,
        answer: AI_TASK_QUEUED,
        unfinished: AI_TASK_RUNNING,
      },
      errors: ['idempotency_key_reused'],
    }),
    async (request, reply) => {
      const ai_task_id = newId()
      const { body } = request
      const { kind, model = null, max_output_tokens = null, metadata } = body
      return await accept(context, request, reply, {
        job: runAiTask,
        answers,
        id: ai_task_id,
        body,
        step(asked) {
          const place = aiTaskInputPlace(asked.tenant_id, asked.job_id)
          const input = vault.seal(JSON.stringify(inputOf(body)), place)
          return create({ ...asked, ai_task_id, kind, model, max_output_tokens, metadata, input })
        },
        reached: ({ status }) => isFinal(status),
        shows_failure: () => true,
      })
    },
  )
}

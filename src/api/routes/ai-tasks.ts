// Routes of AI tasks.
import type { FastifyInstance } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { batcher } from '#core/batch.ts'
import { AppError } from '#core/errors.ts'
import { newId } from '#core/ids.ts'
import { aiTaskKind, aiTaskSchema, aiTaskStatus, isFinal, type AiTask } from '#domain/ai-tasks/ai-task.ts'
import { findAiTasks, findProtectedAiTask, listAiTasks } from '#domain/ai-tasks/find.ts'
import { cancelAiTask, requestAiTasks, type AiTaskRequest } from '#domain/ai-tasks/request.ts'
import { aiTaskInputPlace } from '#domain/ai-tasks/sealed.ts'
import { runAiTask } from '#jobs/ai-tasks.ts'
import { accept, acceptAtOnce, finding, type Answers } from '../accept.ts'
import { idempotencyKey } from '../body.ts'
import type { RouteContext } from '../context.ts'
import { idParams, nextPage, pageQuery, route } from '../route.ts'
import { createBody, inputOf, REQUESTS } from './ai-tasks/body.ts'
import { AI_TASK_QUEUED, AI_TASK_RUNNING } from './ai-tasks/examples.ts'

const cancelBody = z
  .strictObject({ idempotency_key: idempotencyKey.meta({ example: 'ticket-17-cancel' }).optional() })
  .meta({ id: 'CancelAiTask', description: 'Only an idempotency key.' })
  .nullish()

const filters = pageQuery.extend({
  status: aiTaskStatus.optional().meta({ description: 'Filter by status.' }),
  kind: aiTaskKind.optional().meta({ description: 'Filter by kind.' }),
})

export function aiTaskRoutes(root: FastifyInstance, context: RouteContext): void {
  const { sql, lists, vault } = context
  const app = root.withTypeProvider<ZodTypeProvider>()
  const create = batcher<AiTaskRequest, 'accepted' | 'known' | undefined>(
    'create_ai_task',
    async (requests) => {
      const became = await requestAiTasks(sql, requests)
      return requests.map(({ ai_task_id }) => became.get(ai_task_id))
    },
    { key: ({ tenant_id, idempotency_key }) => `${tenant_id} ${idempotency_key}` },
  )
  const answers: Answers<AiTask> = {
    find: finding('find_ai_task', (asked) => findAiTasks(sql, asked), 'ai_task_not_found'),
    pathOf: ({ id }) => `/v1/ai/tasks/${id}`,
    idsOf: ({ id }) => ({ ai_task_id: id }),
  }

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

  app.get(
    '/v1/ai/tasks',
    route({
      area: 'ai',
      scope: 'ai:read',
      tag: 'ai_tasks',
      operation_id: 'listAiTasks',
      summary: 'List AI tasks, newest first',
      description: '`output` is null in lists. Retrieve a task to read its output.',
      querystring: filters,
      response: { 200: z.array(aiTaskSchema) },
      errors: [],
    }),
    async (request, reply) => {
      const tasks = await lists(request, reply, (lists_sql) =>
        listAiTasks(lists_sql, request.credentials.tenant_id, request.query),
      )
      reply.headers(nextPage(request.url, request.query.limit, tasks))
      return tasks
    },
  )

  app.get(
    '/v1/ai/tasks/:id',
    route({
      area: 'ai',
      scope: 'ai:read',
      tag: 'ai_tasks',
      operation_id: 'getAiTask',
      summary: 'Retrieve an AI task',
      params: idParams,
      large: 'expected',
      response: { 200: aiTaskSchema },
      errors: ['ai_task_not_found'],
    }),
    async ({ credentials: { tenant_id }, params: { id } }) =>
      (await answers.find({ tenant_id, id, job_id: null })).resource,
  )

  app.post(
    '/v1/ai/tasks/:id/cancel',
    route({
      area: 'ai',
      scope: 'ai:write',
      tag: 'ai_tasks',
      operation_id: 'cancelAiTask',
      summary: 'Cancel an AI task',
      description:
        'Cancels a task at once, unless it has ended. A call to the provider that is in progress is aborted within a second, and its answer is discarded.',
      params: idParams,
      body: cancelBody,
      large: 'expected',
      response: { 200: aiTaskSchema },
      key: 'optional',
      examples: {
        requests: { bare: { summary: 'The body is optional', value: {} } },
        answer: {
          ...AI_TASK_RUNNING,
          status: 'canceled',
          finished_at: '2026-11-20T10:15:31.123456Z',
        },
      },
      errors: ['ai_task_not_found', 'ai_task_not_cancelable', 'idempotency_key_reused'],
    }),
    async (request, reply) => {
      const { tenant_id } = request.credentials
      const ai_task_id = request.params.id
      return await acceptAtOnce(context, request, reply, {
        body: request.body ?? {},
        step: (asked) => cancelAiTask(sql, { ...asked, ai_task_id, event_id: newId() }),
        find: (sent) => findProtectedAiTask(sql, sent),
        async why_not() {
          const { status } = (await answers.find({ tenant_id, id: ai_task_id, job_id: null })).resource
          return new AppError('ai_task_not_cancelable', {
            message: `The AI task cannot be canceled: it is ${status}.`,
            context: { status },
          })
        },
      })
    },
  )
}

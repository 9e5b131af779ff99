// Routes that read AI tasks: list and retrieve.
import { z } from 'zod'
import { aiTaskKind, aiTaskSchema, aiTaskStatus, type AiTask } from '#domain/ai-tasks/ai-task.ts'
import { listAiTasks } from '#domain/ai-tasks/find.ts'
import type { ResourceReader } from '../../accept.ts'
import type { RouteApp, RouteContext } from '../../context.ts'
import { idParams, nextPage, pageQuery, route } from '../../route.ts'

const filters = pageQuery.extend({
  status: aiTaskStatus.optional().meta({ description: 'Filter by status.' }),
  kind: aiTaskKind.optional().meta({ description: 'Filter by kind.' }),
})

export function readAiTaskRoutes(
  app: RouteApp,
  { runList }: RouteContext,
  { find }: ResourceReader<AiTask>,
): void {
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
      const tasks = await runList(request, reply, (lists_sql) =>
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
      (await find({ tenant_id, id, job_id: null })).resource,
  )
}

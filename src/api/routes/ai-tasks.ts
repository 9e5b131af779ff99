// Routes of AI tasks.
import type { AiTask } from '#domain/ai-tasks/ai-task.ts'
import { findAiTasks } from '#domain/ai-tasks/find.ts'
import { batchedFind, type ResourceReader } from '../accept.ts'
import type { RouteContext, RouteApp } from '../context.ts'
import { cancelAiTaskRoute } from './ai-tasks/cancel.ts'
import { createAiTaskRoute } from './ai-tasks/create.ts'
import { readAiTaskRoutes } from './ai-tasks/read.ts'

export function aiTaskRoutes(app: RouteApp, context: RouteContext): void {
  const { sql } = context
  const reader: ResourceReader<AiTask> = {
    find: batchedFind('find_ai_task', (requested) => findAiTasks(sql, requested), 'ai_task_not_found'),
    pathOf: ({ id }) => `/v1/ai/tasks/${id}`,
    idsOf: ({ id }) => ({ ai_task_id: id }),
  }
  createAiTaskRoute(app, context, reader)
  readAiTaskRoutes(app, context, reader)
  cancelAiTaskRoute(app, context, reader)
}

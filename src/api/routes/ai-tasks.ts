// Routes of AI tasks.
import type { AiTask } from '#domain/ai-tasks/ai-task.ts'
import { findAiTasks } from '#domain/ai-tasks/find.ts'
import { finding, type Answers } from '../accept.ts'
import type { RouteContext, RouteApp } from '../context.ts'
import { cancelAiTaskRoute } from './ai-tasks/cancel.ts'
import { createAiTaskRoute } from './ai-tasks/create.ts'
import { readAiTaskRoutes } from './ai-tasks/read.ts'

export function aiTaskRoutes(app: RouteApp, context: RouteContext): void {
  const { sql } = context
  const answers: Answers<AiTask> = {
    find: finding('find_ai_task', (asked) => findAiTasks(sql, asked), 'ai_task_not_found'),
    pathOf: ({ id }) => `/v1/ai/tasks/${id}`,
    idsOf: ({ id }) => ({ ai_task_id: id }),
  }
  createAiTaskRoute(app, context, answers)
  readAiTaskRoutes(app, context, answers)
  cancelAiTaskRoute(app, context, answers)
}

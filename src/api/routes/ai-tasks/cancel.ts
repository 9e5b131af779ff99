// The route that cancels an AI task.
import { z } from 'zod'
import { AppError } from '#core/errors.ts'
import { aiTaskSchema, type AiTask } from '#domain/ai-tasks/ai-task.ts'
import { findAiTaskByKey } from '#domain/ai-tasks/find.ts'
import { cancelAiTask } from '#domain/ai-tasks/request.ts'
import type { ResourceReader } from '../../accept.ts'
import { acceptWithoutJob } from '../../accept-without-job.ts'
import { idempotencyKey } from '../../body.ts'
import type { RouteApp, RouteContext } from '../../context.ts'
import { idParams, route } from '../../route.ts'
import { AI_TASK_RUNNING } from './examples.ts'

const cancelBody = z
  .strictObject({ idempotency_key: idempotencyKey.meta({ example: 'ticket-17-cancel' }).optional() })
  .meta({ id: 'CancelAiTask', description: 'Only an idempotency key.' })
  .nullish()

export function cancelAiTaskRoute(
  app: RouteApp,
  context: RouteContext,
  { find }: ResourceReader<AiTask>,
): void {
  const { sql } = context

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
      return await acceptWithoutJob(context, request, reply, {
        body: request.body ?? {},
        step: (requested, { event_id }) => cancelAiTask(sql, { ...requested, ai_task_id, event_id }),
        find: (sent) => findAiTaskByKey(sql, sent),
        async explainRefusal() {
          const { status } = (await find({ tenant_id, id: ai_task_id, job_id: null })).resource
          return new AppError('ai_task_not_cancelable', {
            message: `The AI task cannot be canceled: it is ${status}.`,
            context: { status },
          })
        },
      })
    },
  )
}

// The step that settles an AI task.
import { settleAiTasks, type AiTaskSettlement, type AiTaskTold } from '#domain/ai-tasks/settle.ts'
import { settling, type Tells, type Told } from '../../settle.ts'

export const settlingAiTask = settling<Told<AiTaskSettlement>>(
  'settle_ai_task',
  settleAiTasks,
  ({ told }) => told.ai_task_id,
)

/** What became of a task. */
type AiTaskStep = AiTaskTold extends infer Each
  ? Each extends AiTaskTold
    ? Omit<Each, 'tenant_id' | 'ai_task_id'>
    : never
  : never

/** The step that settles the task of a job. */
export function settlingStep(
  { tenant_id, payload }: { tenant_id: string; payload: { ai_task_id: string } },
  step: AiTaskStep,
): Tells {
  return settlingAiTask({ told: { tenant_id, ...payload, ...step } })
}

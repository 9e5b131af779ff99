// The step that settles an AI task.
import { settleAiTasks, type AiTaskSettlement, type AiTaskUpdate } from '#domain/ai-tasks/settle.ts'
import { createSettlingStep, type Effects, type SettlementDetails } from '../../settle.ts'

export const settlingAiTask = createSettlingStep<SettlementDetails<AiTaskSettlement>>(
  'settle_ai_task',
  settleAiTasks,
  ({ update }) => update.ai_task_id,
)

/** The new state of a task. */
type AiTaskStep = AiTaskUpdate extends infer Each
  ? Each extends AiTaskUpdate
    ? Omit<Each, 'tenant_id' | 'ai_task_id'>
    : never
  : never

/** The effects that settle the task of a job. */
export function settlingStep(
  { tenant_id, payload }: { tenant_id: string; payload: { ai_task_id: string } },
  step: AiTaskStep,
): Effects {
  return settlingAiTask({ update: { tenant_id, ...payload, ...step } })
}

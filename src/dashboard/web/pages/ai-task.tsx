// AI task.
import { BeingBuilt } from '../kit/states.tsx'

export function AiTaskPage() {
  return <BeingBuilt title="AI task" />
}

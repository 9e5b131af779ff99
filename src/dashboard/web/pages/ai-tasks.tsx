// AI tasks.
import { BeingBuilt } from '../kit/states.tsx'

export function AiTasksPage() {
  return <BeingBuilt title="AI tasks" />
}

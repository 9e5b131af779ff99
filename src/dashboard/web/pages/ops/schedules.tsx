// Schedules.
import { BeingBuilt } from '../../kit/states.tsx'

export function SchedulesPage() {
  return <BeingBuilt title="Schedules" />
}

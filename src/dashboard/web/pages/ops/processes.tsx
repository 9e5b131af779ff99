// Processes.
import { BeingBuilt } from '../../kit/states.tsx'

export function ProcessesPage() {
  return <BeingBuilt title="Processes" />
}

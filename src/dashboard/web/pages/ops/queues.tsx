// Queues.
import { BeingBuilt } from '../../kit/states.tsx'

export function QueuesPage() {
  return <BeingBuilt title="Queues" />
}

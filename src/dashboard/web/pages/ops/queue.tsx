// Queue.
import { BeingBuilt } from '../../kit/states.tsx'

export function QueuePage() {
  return <BeingBuilt title="Queue" />
}

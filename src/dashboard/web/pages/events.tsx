// Events.
import { BeingBuilt } from '../kit/states.tsx'

export function EventsPage() {
  return <BeingBuilt title="Events" />
}

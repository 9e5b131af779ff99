// Event.
import { BeingBuilt } from '../kit/states.tsx'

export function EventPage() {
  return <BeingBuilt title="Event" />
}

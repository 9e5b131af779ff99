// Drifts.
import { BeingBuilt } from '../../kit/states.tsx'

export function DriftsPage() {
  return <BeingBuilt title="Drifts" />
}

// Disputes.
import { BeingBuilt } from '../kit/states.tsx'

export function DisputesPage() {
  return <BeingBuilt title="Disputes" />
}

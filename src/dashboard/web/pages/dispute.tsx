// Dispute.
import { BeingBuilt } from '../kit/states.tsx'

export function DisputePage() {
  return <BeingBuilt title="Dispute" />
}

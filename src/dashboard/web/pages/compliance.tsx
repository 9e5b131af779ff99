// Compliance.
import { BeingBuilt } from '../kit/states.tsx'

export function CompliancePage() {
  return <BeingBuilt title="Compliance" />
}

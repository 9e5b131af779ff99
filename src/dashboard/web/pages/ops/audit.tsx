// Audit.
import { BeingBuilt } from '../../kit/states.tsx'

export function OperatorAuditPage() {
  return <BeingBuilt title="Audit" />
}

// Settings, Audit.
import { NotBuilt } from '../../kit/states.tsx'

export function AuditTab() {
  return <NotBuilt />
}

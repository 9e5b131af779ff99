// Tenants.
import { BeingBuilt } from '../../kit/states.tsx'

export function TenantsPage() {
  return <BeingBuilt title="Tenants" />
}

// Providers.
import { BeingBuilt } from '../../kit/states.tsx'

export function ProvidersPage() {
  return <BeingBuilt title="Providers" />
}

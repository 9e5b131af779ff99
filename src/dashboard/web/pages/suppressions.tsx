// Suppressions.
import { BeingBuilt } from '../kit/states.tsx'

export function SuppressionsPage() {
  return <BeingBuilt title="Suppressions" />
}

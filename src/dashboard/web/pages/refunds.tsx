// Refunds.
import { BeingBuilt } from '../kit/states.tsx'

export function RefundsPage() {
  return <BeingBuilt title="Refunds" />
}

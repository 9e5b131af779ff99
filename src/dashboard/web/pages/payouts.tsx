// Payouts.
import { BeingBuilt } from '../kit/states.tsx'

export function PayoutsPage() {
  return <BeingBuilt title="Payouts" />
}

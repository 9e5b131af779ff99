// Payout.
import { BeingBuilt } from '../kit/states.tsx'

export function PayoutPage() {
  return <BeingBuilt title="Payout" />
}

// Refund.
import { BeingBuilt } from '../kit/states.tsx'

export function RefundPage() {
  return <BeingBuilt title="Refund" />
}

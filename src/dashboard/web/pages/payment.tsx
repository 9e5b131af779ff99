// Payment.
import { BeingBuilt } from '../kit/states.tsx'

export function PaymentPage() {
  return <BeingBuilt title="Payment" />
}

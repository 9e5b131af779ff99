// Payments.
import { BeingBuilt } from '../kit/states.tsx'

export function PaymentsPage() {
  return <BeingBuilt title="Payments" />
}

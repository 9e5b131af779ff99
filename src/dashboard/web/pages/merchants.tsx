// Merchants.
import { BeingBuilt } from '../kit/states.tsx'

export function MerchantsPage() {
  return <BeingBuilt title="Merchants" />
}

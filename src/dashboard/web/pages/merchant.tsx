// Merchant.
import { BeingBuilt } from '../kit/states.tsx'

export function MerchantPage() {
  return <BeingBuilt title="Merchant" />
}

// Wallet.
import { BeingBuilt } from '../kit/states.tsx'

export function WalletPage() {
  return <BeingBuilt title="Wallet" />
}

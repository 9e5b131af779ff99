// Verification.
import { BeingBuilt } from '../kit/states.tsx'

export function VerificationPage() {
  return <BeingBuilt title="Verification" />
}

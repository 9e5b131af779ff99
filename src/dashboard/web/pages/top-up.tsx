// Top-up.
import { BeingBuilt } from '../kit/states.tsx'

export function TopUpPage() {
  return <BeingBuilt title="Top-up" />
}

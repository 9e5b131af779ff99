// Overview.
import { BeingBuilt } from '../kit/states.tsx'

export function OverviewPage() {
  return <BeingBuilt title="Overview" />
}

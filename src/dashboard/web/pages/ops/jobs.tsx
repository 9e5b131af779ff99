// Jobs.
import { BeingBuilt } from '../../kit/states.tsx'

export function JobsPage() {
  return <BeingBuilt title="Jobs" />
}

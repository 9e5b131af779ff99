// Job.
import { BeingBuilt } from '../../kit/states.tsx'

export function JobPage() {
  return <BeingBuilt title="Job" />
}

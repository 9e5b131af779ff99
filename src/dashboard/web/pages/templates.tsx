// Templates.
import { BeingBuilt } from '../kit/states.tsx'

export function TemplatesPage() {
  return <BeingBuilt title="Templates" />
}

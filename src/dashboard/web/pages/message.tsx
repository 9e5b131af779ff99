// Message.
import { BeingBuilt } from '../kit/states.tsx'

export function MessagePage() {
  return <BeingBuilt title="Message" />
}

// Messages.
import { BeingBuilt } from '../kit/states.tsx'

export function MessagesPage() {
  return <BeingBuilt title="Messages" />
}

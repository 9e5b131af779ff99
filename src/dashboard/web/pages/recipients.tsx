// Recipients.
import { BeingBuilt } from '../kit/states.tsx'

export function RecipientsPage() {
  return <BeingBuilt title="Recipients" />
}

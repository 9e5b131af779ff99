// Recipient.
import { BeingBuilt } from '../kit/states.tsx'

export function RecipientPage() {
  return <BeingBuilt title="Recipient" />
}

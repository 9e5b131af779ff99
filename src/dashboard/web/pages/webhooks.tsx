// Webhooks.
import { BeingBuilt } from '../kit/states.tsx'

export function WebhooksPage() {
  return <BeingBuilt title="Webhooks" />
}

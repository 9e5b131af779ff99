// Webhook endpoint.
import { BeingBuilt } from '../kit/states.tsx'

export function WebhookEndpointPage() {
  return <BeingBuilt title="Webhook endpoint" />
}

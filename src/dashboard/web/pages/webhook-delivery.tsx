// Delivery.
import { BeingBuilt } from '../kit/states.tsx'

export function WebhookDeliveryPage() {
  return <BeingBuilt title="Delivery" />
}

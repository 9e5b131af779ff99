// Seals the texts of inbound SMS on their way from the webhooks host to a worker. The host has no ENCRYPTION_KEY, so
// the key is derived from ADDRESS_KEY. The worker seals the texts again as messages.
import { hkdfSync } from 'node:crypto'
import { z } from 'zod'
import { SYSTEM_TENANT_ID } from '#core/ids.ts'
import { createVault, type SealingContext, type Vault } from '#core/secrets.ts'

/** The content of an inbound SMS. */
export const inboundText = z.object({ from: z.string(), to: z.string(), body: z.string() })
export type InboundText = z.output<typeof inboundText>

/** The vault for texts of inbound SMS. `address_key`: ADDRESS_KEY. */
export function createInboundVault(address_key: string): Vault {
  const key = hkdfSync('sha256', Buffer.from(address_key, 'base64'), '', 'texts of inbound messages', 32)
  return createVault(Buffer.from(key).toString('base64'))
}

/** The sealing context of the text in its notification. */
export function inboundTextContext(notification_id: string): SealingContext {
  return { tenant_id: SYSTEM_TENANT_ID, table: 'notifications', row: notification_id, column: 'text' }
}

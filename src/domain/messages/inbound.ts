// Seals the texts of inbound SMS on their way from the webhooks host to a worker. The host has no ENCRYPTION_KEY, so
// the key is derived from ADDRESS_KEY. The worker seals the texts again as messages.
import { hkdfSync } from 'node:crypto'
import { z } from 'zod'
import type { AddressHash } from '#core/addresses.ts'
import { SMS } from '#core/config/providers.ts'
import { SYSTEM_TENANT_ID } from '#core/ids.ts'
import { createVault, type SealingContext, type Vault } from '#core/secrets.ts'
import { notificationOf } from '../notifications/notification.ts'
import type { Arrival } from '../notifications/store.ts'
import type { MessageProviderEvent } from './update.ts'

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

/**
 * An inbound SMS as the provider reports it. `livemode`: false from the sandbox. `sid`: its id there. `received_at`:
 * null if it has just been received.
 */
type ReportedInbound = {
  livemode: boolean
  account: string
  sid: string
  from: string
  /** The number that received the SMS, and its messaging service, if any. */
  received_by: string[]
  body: string
  keyword: Extract<MessageProviderEvent, { about: 'inbound_sms' }>['keyword']
  received_at: string | null
}

/** The notification about an inbound SMS, with hashed numbers and its text sealed. */
export function inboundNotification(
  { vault, hashOf }: { vault: Vault; hashOf: AddressHash },
  { livemode, account, sid, from, received_by, body, keyword, received_at }: ReportedInbound,
): Omit<Arrival, 'will_wake' | 'request_id'> {
  const payload: MessageProviderEvent = {
    about: 'inbound_sms',
    keyword,
    from: hashOf('sms', from),
    received_by: received_by.map((each) => hashOf('sms', each)),
    ...(received_at !== null && { received_at }),
  }
  const stored = notificationOf(
    { provider: SMS.provider, livemode },
    {
      account,
      object_id: sid,
      reported: null,
      event_id: sid,
      kind: `sms.${keyword}`,
      payload,
      is_relevant: true,
    },
  )
  const inbound: InboundText = { from, to: received_by[0]!, body: storableText(body) }
  const text = vault.seal(JSON.stringify(inbound), inboundTextContext(stored.id))
  return { ...stored, payload: { ...payload, text } }
}

/** A text without characters that PostgreSQL or JSON cannot store. */
function storableText(text: string): string {
  return text.toWellFormed().replaceAll('\u0000', '\uFFFD')
}

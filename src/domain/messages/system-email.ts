// Emails of the system's own tenant: to tenants' contacts, and invitations.
import type { AddressHash } from '#core/addresses.ts'
import { newId, SYSTEM_TENANT_ID } from '#core/ids.ts'
import type { Vault } from '#core/secrets.ts'
import type { MessageLimits } from './limits.ts'
import type { MessageRequest } from './request.ts'
import { sealTextEmail, type TextEmail } from './text-email.ts'

export type SystemEmailSettings = { vault: Vault; hashOf: AddressHash; from: string }

/** No effective limits: the system's tenant sends for all tenants, and several tenants may share an address. */
export const NO_LIMITS: MessageLimits = { tenant: 1_000_000, destination: 1_000_000 }

/** The request for a system email. `purpose` is stored as the key's route, so keys are unique per purpose. */
export function systemEmailRequest(
  settings: SystemEmailSettings,
  mail: {
    purpose: string
    idempotency_key: string
    email: Omit<TextEmail, 'from'>
    metadata: MessageRequest['metadata']
  },
): MessageRequest {
  const ids = { tenant_id: SYSTEM_TENANT_ID, message_id: newId() }
  return {
    ...ids,
    job_id: newId(),
    event_id: newId(),
    will_wake: false,
    idempotency_key: mail.idempotency_key,
    route: mail.purpose,
    fingerprint: '',
    request_id: null,
    ...sealTextEmail(settings, ids, { from: settings.from, ...mail.email }),
    send_at: null,
    retries: true,
    metadata: mail.metadata,
  }
}

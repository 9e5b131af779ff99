// Standard Webhooks 1.0: the secrets with which we sign what we send.
import { randomBytes } from 'node:crypto'

/** A new secret of an endpoint. */
export function newWebhookSecret(): string {
  return `whsec_${randomBytes(32).toString('base64')}`
}

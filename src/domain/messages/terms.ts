// What lists of messages are filtered by, as tokens: written with a message, and made again from a filter.
import { hash } from 'node:crypto'

/**
 * The token of a recipient or of the sender of a received SMS, by the hash of the address, or of a tag; of one tenant
 * only.
 */
export function messageTerm(tenant_id: string, kind: 'to' | 'from' | 'tag', value: string): string {
  return hash('sha256', JSON.stringify([tenant_id, kind, value]), 'base64url').slice(0, 16)
}

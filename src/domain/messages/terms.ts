// Tokens by which lists of messages are filtered: stored with a message, and computed from a filter.
import { hash } from 'node:crypto'

/**
 * The token of a recipient (`to`), of the sender of a received SMS (`from`), or of a tag. `value`: the hash of the
 * address, or the tag. Tokens differ between tenants.
 */
export function messageTerm(tenant_id: string, kind: 'to' | 'from' | 'tag', value: string): string {
  return hash('sha256', JSON.stringify([tenant_id, kind, value]), 'base64url').slice(0, 16)
}

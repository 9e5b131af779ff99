// What an entry of the audit log can be about: the nouns of the API, and what only people act on.
import { RESOURCE_NAMES } from '../resources.ts'

/** In the singular, as everywhere. `story`: that of a row, whatever its noun. */
export const AUDIT_SUBJECTS = [
  ...RESOURCE_NAMES,
  'act',
  'event',
  'idempotency_key',
  'invitation',
  'job',
  'key',
  'member',
  'proposal',
  'queue',
  'story',
  'tenant',
  'user',
] as const
export type AuditSubject = (typeof AUDIT_SUBJECTS)[number]

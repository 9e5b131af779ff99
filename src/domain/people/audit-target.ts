// The subjects of audit entries: the resources of the API, and objects that only people act on.
import { RESOURCE_NAMES } from '../resources.ts'

/** In the singular. `story`: the timeline of any row. */
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

// The subjects of audit entries: the resources of the API, and objects that only people act on.
import { RESOURCE_NAMES } from '../resources.ts'

/** The names are singular. `timeline`: that of any row. */
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
  'tenant',
  'timeline',
  'user',
] as const
export type AuditSubject = (typeof AUDIT_SUBJECTS)[number]

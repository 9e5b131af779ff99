// The subjects of audit entries: the resources of the API, and objects that only people act on.
import { RESOURCE_NAMES } from '../resources.ts'

/** The names are singular. `timeline`: the timeline of a row of any resource. */
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
  'switch',
  'tenant',
  'timeline',
  'user',
] as const
export type AuditSubject = (typeof AUDIT_SUBJECTS)[number]

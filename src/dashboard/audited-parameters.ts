// Describes a request for the audit log: the resource in its path, and fields without personal data.
import type { FastifyRequest } from 'fastify'
import type { AuditAct } from '#domain/people/audit-log.ts'
import { AUDIT_SUBJECTS, type AuditSubject } from '#domain/people/audit-target.ts'

/**
 * Fields of bodies and queries that the audit log stores: ids, amounts, times and decisions, but no names, addresses or
 * texts. Other fields are omitted.
 */
export const AUDITED_FIELDS: ReadonlySet<string> = new Set([
  'action',
  'after',
  'amount_max',
  'amount_min',
  'amount_minor',
  'archived',
  'before',
  'capture_before_to',
  'channel',
  'created_from',
  'created_to',
  'currency',
  'customer_id',
  'decision',
  'deleted',
  'event_id',
  'idempotency_key',
  'kind',
  'limit',
  'merchant_id',
  'open',
  'payment_id',
  'reason',
  'recipient_id',
  'resource_id',
  'seq',
  'since',
  'state',
  'status',
  'subject_id',
  'subject_type',
  'type',
  'types',
  'until',
])
const MAX_LENGTH = { field: 255, filters: 1_000 }

/**
 * The resource that the path names, the audited fields of the body, and the query. In the query, the values of fields
 * that are not audited are replaced by `...`.
 */
export function auditedParameters({
  params,
  routeOptions,
  query,
  body,
}: FastifyRequest): Omit<AuditAct, 'action'> {
  const [id] = Object.values((params ?? {}) as Record<string, string>)
  const url = routeOptions.url ?? ''
  const fields = Object.entries(Object(body) as Record<string, unknown>).flatMap(([name, value]) =>
    AUDITED_FIELDS.has(name) && isScalar(value) && !isPersonalReason(url, name, value)
      ? [[name, truncate(String(value), MAX_LENGTH.field)] as const]
      : [],
  )
  const filters = Object.entries((query ?? {}) as Record<string, unknown>).map(
    ([name, value]) =>
      [name, AUDITED_FIELDS.has(name) && [value].flat().every(isScalar) ? value : '...'] as const,
  )
  return {
    ...(id !== undefined && subjectOfPath(url)),
    ...(id !== undefined && { subject_id: id }),
    details: {
      ...Object.fromEntries(fields),
      ...(filters.length > 0 && {
        query: truncate(JSON.stringify(Object.fromEntries(filters)), MAX_LENGTH.filters),
      }),
    },
  }
}

/** Audit subjects, the longest first: `/v1/idempotency_keys/:key` must not match `key`. */
const SUBJECTS_BY_LENGTH = AUDIT_SUBJECTS.toSorted((one, other) => other.length - one.length)

/** The audit subject of a route, from the segments before its id: `ai_task` for `/v1/ai/tasks/:id`. */
export function subjectOfPath(path: string): { subject?: AuditSubject } {
  const name = path
    .replace(/\/:.*/, '')
    .replaceAll('/', '_')
    .replace(/ies$/, 'y')
    .replace(/(?<=ch)es$|s$/, '')
  const subject = SUBJECTS_BY_LENGTH.find((each) => name.endsWith(`_${each}`))
  return subject === undefined ? {} : { subject }
}

/**
 * Whether a field is the reason of a decision about a verification, in a person's words. Such a reason is erased with
 * the customer, but the audit log is kept. All other reasons are about payments, payouts or acts of operators.
 */
function isPersonalReason(url: string, name: string, value: unknown): boolean {
  return name === 'reason' && /\/compliance\/kyc\b/.test(url) && !/^[a-z_]{1,64}$/.test(String(value))
}

function isScalar(value: unknown): boolean {
  return ['string', 'number', 'boolean'].includes(typeof value)
}

/** Truncates a text. Replaces half a surrogate pair at its end, which PostgreSQL rejects. */
function truncate(text: string, length: number): string {
  return text.slice(0, length).toWellFormed()
}

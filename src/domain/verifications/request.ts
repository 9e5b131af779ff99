// Requests to create verifications, to get their links, and to decide them manually, each in one statement. A trigger
// updates the subject's `kyc_status`.
import { violatedConstraint, type Json, type Sql } from '#core/db.ts'
import { requestJson } from '#jobs/job.ts'
import { createVerification, linkVerification } from '#jobs/verifications.ts'
import { insertingEvents, type EventType } from '../events.ts'
import {
  isKeyUsed,
  jobRequestColumns,
  keyColumns,
  storingKeys,
  type IdempotentRequest,
  type JobRequest,
} from '../idempotency.ts'
import { enqueuingJobs } from '../jobs/request.ts'
import { resourceOf } from '../resources.ts'
import { providerMetadata } from '../provider-metadata.ts'
import { cancelingSessions } from './cancel.ts'
import { verificationColumns } from './find.ts'
import type { VerificationSubjectType, Verification } from './verification.ts'

export type VerificationRequest = JobRequest & {
  kyc_id: string
  subject_type: VerificationSubjectType
  subject_id: string
  return_url: string | null
  metadata: Json
  provider: string
}

/** For each type of subject, the column with the time at which the subject was deleted or archived. */
const REMOVED_AT_COLUMNS: Record<VerificationSubjectType, string> = {
  customer: 'deleted_at',
  merchant: 'archived_at',
  recipient: 'archived_at',
}

/**
 * Creates a verification and inserts its job. The subject must exist and not be removed, and its latest verification
 * must be decided, according to the locked row of the subject. Returns `key_used` when the key was used before;
 * undefined when one of these conditions is not met, or when the subject has another open verification that its row
 * does not show. Throws a unique violation, and writes nothing, when another request uses the key at the same time.
 */
export async function requestVerification(
  sql: Sql,
  request: VerificationRequest,
): Promise<'accepted' | 'key_used' | undefined> {
  const { subject_type } = request
  const keys = sql`select *, kyc_id as resource_id from accepted`
  const new_events = sql`
    select v.*, a.event_id, ${'kyc.created' satisfies EventType} as event
    from v join accepted a on a.tenant_id = v.tenant_id and a.kyc_id = v.id`
  const call = requestJson(sql, createVerification, {
    return_url: sql`return_url`,
    metadata: providerMetadata(sql, 'kyc', ['subject_type', 'subject_id', 'subject_fingerprint']),
  })
  const insertion = sql<{ key_used: boolean; accepted: boolean }[]>`
    with requests as (
      select a.*, ${isKeyUsed(sql, 'kyc')} as key_used from jsonb_to_recordset(${sql.json([request])}) as a(
        ${jobRequestColumns(sql)}, kyc_id uuid, subject_type text, subject_id uuid, return_url text, metadata jsonb,
        provider text)
    ), accepted as (
      select g.*, subject_fingerprint(g.subject_type, g.tenant_id, g.subject_id) as subject_fingerprint
      from requests g
      cross join lateral (
        select from ${sql(resourceOf(subject_type).table)} s
        where s.tenant_id = g.tenant_id and s.id = g.subject_id and s.${sql(REMOVED_AT_COLUMNS[subject_type])} is null
          and s.kyc_status in ('none', 'approved', 'rejected')
        for no key update
      ) s
      where not g.key_used
    ), v as (
      insert into verifications (tenant_id, id, idempotency_key, subject_type, subject_id, subject_fingerprint,
        return_url, metadata, provider)
      select tenant_id, kyc_id, idempotency_key, subject_type, subject_id, subject_fingerprint, return_url,
        coalesce(metadata, 'null'), provider
      from accepted
      returning *
    ),
    stored_keys as (${storingKeys(sql, 'kyc', keys)}),
    event as (${insertingEvents(sql, 'kyc', new_events)}),
    job as (${enqueuingJobs(sql, createVerification, 'kyc', sql`accepted`, call)})
    select key_used, exists (select from v) as accepted from requests`
  const [row] = await insertion.catch(ignoreOpenVerification)
  if (row === undefined) return undefined
  if (row.key_used) return 'key_used'
  return row.accepted ? 'accepted' : undefined
}

function ignoreOpenVerification(error: unknown): [] {
  if (violatedConstraint(error) === 'verifications_one_open') return []
  throw error
}

/** Whether a subject is removed, and its open or latest verification; undefined when there is no such subject. */
export async function findVerificationSubject(
  sql: Sql,
  {
    tenant_id,
    subject_type,
    subject_id,
  }: Pick<VerificationRequest, 'tenant_id' | 'subject_type' | 'subject_id'>,
): Promise<{ is_removed: boolean; kyc_id: string | null } | undefined> {
  const [row] = await sql<{ is_removed: boolean; kyc_id: string | null }[]>`
    select ${sql(REMOVED_AT_COLUMNS[subject_type])} is not null as is_removed, coalesce(v.id, s.kyc_id) as kyc_id
    from ${sql(resourceOf(subject_type).table)} s
    left join lateral (
      select v.id from verifications v
      where v.tenant_id = s.tenant_id and v.subject_type = ${subject_type} and v.subject_id = s.id and v.open
    ) v on true
    where s.tenant_id = ${tenant_id} and s.id = ${subject_id}`
  return row
}

export type VerificationLinkRequest = JobRequest & { kyc_id: string }

/**
 * The maximum number of link requests in progress per verification. Each needs its own call, because each has its own
 * link.
 */
export const MAX_OPEN_LINKS = 10

/**
 * Requests another link. Returns `key_used` when the key was used before; undefined when the provider would return no
 * link, or when too many requests are in progress. Serialize the calls per verification, because concurrent calls
 * count the same jobs.
 */
export async function requestVerificationLink(
  sql: Sql,
  request: VerificationLinkRequest,
): Promise<'accepted' | 'key_used' | undefined> {
  const keys = sql`select *, kyc_id as resource_id from accepted`
  const [row] = await sql<{ key_used: boolean; accepted: boolean }[]>`
    with requests as (
      select a.*, ${isKeyUsed(sql)} as key_used from jsonb_to_recordset(${sql.json([request])}) as a(
        ${jobRequestColumns(sql)}, kyc_id uuid)
    ), accepted as (
      select g.* from requests g
      cross join lateral (
        select from verifications v
        where v.tenant_id = g.tenant_id and v.id = g.kyc_id and v.status = 'requires_input'
          and v.provider_reference is not null
        for update
      ) v
      where not g.key_used and ${MAX_OPEN_LINKS} > (
        select count(*) from jobs j
        where j.tenant_id = g.tenant_id and j.resource_id = g.kyc_id and j.name = ${linkVerification.name}
          and j.finished_at is null)
    ),
    stored_keys as (${storingKeys(sql, 'kyc', keys)}),
    job as (${enqueuingJobs(sql, linkVerification, 'kyc', sql`accepted`)})
    select key_used, exists (select from accepted) as accepted from requests`
  if (row!.key_used) return 'key_used'
  return row!.accepted ? 'accepted' : undefined
}

export type DecideRequest = IdempotentRequest & {
  kyc_id: string
  event_id: string
  /** The id of the job that cancels the session if the session waits for the person. */
  job_id: string
  key_id: string
  decision: 'approved' | 'rejected'
  reason: string
}

/**
 * Decides a verification manually, once. The decision overrides a decision of the provider, and cancels a session
 * that waits for the person. Returns `key_used` when the key was used before; undefined when the verification does
 * not exist, was decided manually or is outdated.
 */
export async function decideVerification(
  sql: Sql,
  request: DecideRequest,
): Promise<Verification | 'key_used' | undefined> {
  const keys = sql`
    select tenant_id, request_key as idempotency_key, route, fingerprint, id as resource_id, null::uuid as job_id
      from v`
  const new_events = sql`select v.*, 'kyc.' || v.status as event from v`
  const [row] = await sql<(Verification & { key_used: boolean })[]>`
    with requests as (
      select a.*, ${isKeyUsed(sql)} as key_used from jsonb_to_recordset(${sql.json([request])}) as a(
        ${keyColumns(sql)}, tenant_id uuid, kyc_id uuid, event_id uuid, job_id uuid, key_id uuid, request_id text,
        decision text, reason text)
    ), locked as (
      select g.*, g.idempotency_key as request_key, v.awaits_input from requests g
      cross join lateral (
        select v.status = 'requires_input' and v.cancel_requested_at is null as awaits_input from verifications v
        where v.tenant_id = g.tenant_id and v.id = g.kyc_id and v.decided_by is distinct from 'manual'
          and not v.outdated
        for update
      ) v
      where not g.key_used
    ), v as (
      update verifications v set status = l.decision, decision = l.decision, decision_reason = l.reason,
        decided_by = 'manual', decided_by_key_id = l.key_id, decided_at = clock_timestamp(), failure = null,
        links = '{}', links_until = null, updated_at = clock_timestamp(),
        cancel_requested_at = case when l.awaits_input then clock_timestamp() else v.cancel_requested_at end
      from locked l where v.tenant_id = l.tenant_id and v.id = l.kyc_id
      returning v.*, l.kyc_id, l.request_key, l.route, l.fingerprint, l.request_id, l.event_id, l.job_id, l.awaits_input
    ),
    stored_keys as (${storingKeys(sql, 'kyc', keys)}),
    event as (${insertingEvents(sql, 'kyc', new_events)}),
    job as (${cancelingSessions(sql, sql`select * from v where awaits_input`)})
    select g.key_used, v.* from requests g left join (select ${verificationColumns(sql)} from v) v on true`
  const { key_used, ...verification } = row!
  if (key_used) return 'key_used'
  // If the request was refused, the left join returns a row of nulls.
  return verification.id === null ? undefined : verification
}

// Applies provider events about the sessions of verifications.
import type { StoredNotification } from '#domain/notifications/notification.ts'
import { idIn, type ObjectMarks } from '#domain/provider-metadata.ts'
import { disagreement } from '#domain/reconciliation/compare.ts'
import {
  findVerificationByIds,
  findVerificationByReference,
  findDatabaseTime,
  type ExistingVerification,
} from '#domain/verifications/find.ts'
import { recoverVerification } from '#domain/verifications/recover.ts'
import { verificationSubjectType } from '#domain/verifications/verification.ts'
import type { IdentitySession } from '#providers/identity.ts'
import type { ProviderEventTarget } from '#providers/events.ts'
import type { WorkerContext } from '../../context.ts'
import { done, type Decision } from '../../decision.ts'
import { addLogFacts } from '../../job-log.ts'
import { cancelDuplicate, isUndoableDuplicate, mayBeDuplicate } from '../duplicates/effects.ts'
import { endApplied, findRowAndRecord, isLookup } from '../notifications/apply.ts'
import { compare } from '../notifications/drifts.ts'
import { wasDrift } from '../notifications/parked.ts'
import { findingWithinMode } from '../notifications/rows.ts'
import {
  comparedVerification,
  settlingVerification,
  sideOfSession,
  subjectFingerprintIn,
  verificationUpdate,
} from './effects.ts'

const verificationRows = findingWithinMode<ExistingVerification>({
  resource: 'kyc',
  byReference: ({ sql, identity }, reference) => findVerificationByReference(sql, identity.name, reference),
  byIds: ({ sql }, ids, reference) => findVerificationByIds(sql, ids, reference),
})

export const verificationEvent = { apply: applySession, findRow }

async function findRow(context: WorkerContext, { reference }: ProviderEventTarget) {
  const verification = await verificationRows.byReference(context, reference)
  return verification && { ...verification, compared: comparedVerification }
}

/** Makes the row of a verification again. */
async function recover(
  { sql, identity }: WorkerContext,
  marks: ObjectMarks,
  { reference, metadata, created_s }: IdentitySession,
): Promise<boolean | { problem: string }> {
  const subject_type = verificationSubjectType.safeParse(metadata['sluice_subject_type']).data
  const subject_id = idIn(metadata, 'subject_id')
  if (subject_type === undefined || subject_id === null) return { problem: 'its metadata names no party' }
  const provider = { provider: identity.name, provider_reference: reference }
  const requested = { subject_fingerprint: subjectFingerprintIn(metadata), created_s }
  return await recoverVerification(sql, { ...marks, subject_type, subject_id, ...provider, ...requested })
}

async function applySession(
  context: WorkerContext,
  notification: StoredNotification,
  target: ProviderEventTarget,
): Promise<Decision> {
  const { sql, identity } = context
  const { reference } = target
  const as_of = await findDatabaseTime(sql)
  const decideDuplicate = async (row: ExistingVerification, record: IdentitySession) =>
    (await isUndoableDuplicate(context, 'kyc', row, record))
      ? done({ effects: cancelDuplicate('kyc', row, record.reference, notification.id) })
      : undefined
  const both = await findRowAndRecord(context, notification, target, {
    compared: comparedVerification,
    rows: verificationRows,
    query: () => identity.findSession(reference),
    sideOf: sideOfSession,
    recover,
    // A duplicate session moves no money: no operator is needed if it cannot be canceled.
    park_duplicates: false,
    decideDuplicate,
    isPossibleDuplicate: (row) => mayBeDuplicate(context, 'kyc', row),
  })
  if ('decision' in both) return both.decision
  const { row: verification, record: session } = both
  const { tenant_id, id: kyc_id, status, decided_by, provider_reference, outdated } = verification
  // If our verification ended without a session, the record belongs to an earlier call that took effect after all. A
  // later call was refused.
  const has_no_object = status === 'rejected' && provider_reference === null
  const duplicate_decision = has_no_object ? await decideDuplicate(verification, session) : undefined
  if (duplicate_decision !== undefined) return duplicate_decision
  addLogFacts({ tenant_id, kyc_id })
  const update = verificationUpdate({ tenant_id, kyc_id }, session, as_of)
  const effects = settlingVerification({ update, notification_id: notification.id })
  const key = { tenant_id, resource: 'kyc', resource_id: kyc_id } as const
  const theirs = sideOfSession(session)
  const ours = { status, decided_by, provider_reference, outdated }
  const differs = disagreement('kyc', { ours, has_open_job: true, parked: [] }, theirs)
  if (!isLookup(notification) && differs === null && !wasDrift(notification))
    return await endApplied(notification, key, { effects })
  // A verification that is decided here may have another status at the provider, and then no notification changes our
  // row. So the row is compared with the provider's record.
  const compareAfter = () =>
    compare(context, comparedVerification, verification, theirs, { reference, except_id: notification.id })
  return await endApplied(notification, key, { effects, compareAfter })
}

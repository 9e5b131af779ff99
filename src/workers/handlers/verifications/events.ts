// Applies provider events about the sessions of verifications.
import type { StoredNotification } from '#domain/notifications/notification.ts'
import { disagreement } from '#domain/reconciliation/compare.ts'
import {
  findVerificationByIds,
  findVerificationByReference,
  findTime,
  type KnownVerification,
} from '#domain/verifications/find.ts'
import type { IdentitySession } from '#providers/identity.ts'
import type { News } from '#providers/news.ts'
import type { WorkerContext } from '../../context.ts'
import { done, type Decision } from '../../decision.ts'
import { addLogFacts } from '../../job-log.ts'
import { cancelDuplicate, isUndoableDuplicate, mayBeDuplicate } from '../duplicates/effects.ts'
import { applied, findBoth, isLook, type RowsOf } from '../notifications/apply.ts'
import { compare } from '../notifications/drifts.ts'
import { wasDrift } from '../notifications/parked.ts'
import { comparedVerification, settlingVerification, verificationTold, sideOfSession } from './effects.ts'

const verificationRows: RowsOf<KnownVerification> = {
  noun: 'kyc',
  byReference: ({ sql, identity }, reference) => findVerificationByReference(sql, identity.name, reference),
  byIds: ({ sql }, ids, reference) => findVerificationByIds(sql, ids, reference),
}

export const verificationNews = { apply: applySession, findRow }

async function findRow({ sql, identity }: WorkerContext, { reference }: News) {
  const verification = await findVerificationByReference(sql, identity.name, reference)
  return verification && { ...verification, compared: comparedVerification }
}

async function applySession(
  context: WorkerContext,
  notification: StoredNotification,
  news: News,
): Promise<Decision> {
  const { sql, identity } = context
  const { reference } = news
  const as_of = await findTime(sql)
  const undo = async (row: KnownVerification, record: IdentitySession) =>
    (await isUndoableDuplicate(context, 'kyc', row, record))
      ? done({ tells: cancelDuplicate('kyc', row, record.reference, notification.id) })
      : undefined
  const both = await findBoth(context, notification, news, {
    compared: comparedVerification,
    rows: verificationRows,
    ask: () => identity.findSession(reference),
    // No money moves by a second session: one that cannot be canceled needs nobody.
    seconds: false,
    undo,
    mayBeSecond: (row) => mayBeDuplicate(context, 'kyc', row),
  })
  if ('decision' in both) return both.decision
  const { row: verification, record: session } = both
  const { tenant_id, id: kyc_id, status, decided_by, provider_reference } = verification
  // The first call had an effect after all, and its second one was refused.
  const has_none = status === 'rejected' && provider_reference === null
  const undone = has_none ? await undo(verification, session) : undefined
  if (undone !== undefined) return undone
  addLogFacts({ tenant_id, kyc_id })
  const told = verificationTold({ tenant_id, kyc_id }, session, as_of)
  const tells = settlingVerification({ told, notification_id: notification.id })
  const of = { tenant_id, subject: 'kyc', subject_id: kyc_id } as const
  const theirs = sideOfSession(session)
  const ours = { status, decided_by, provider_reference }
  const differs = disagreement('kyc', { ours, worked_on: true, parked: [] }, theirs)
  if (!isLook(notification) && differs === null && !wasDrift(notification))
    return await applied(notification, of, { tells })
  // One that is decided here may differ there, and then no notification will change it.
  const compareAfter = () =>
    compare(context, comparedVerification, verification, theirs, { reference, news: notification.id })
  return await applied(notification, of, { tells, compareAfter })
}

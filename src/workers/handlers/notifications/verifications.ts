// Translates what the provider says of the session of a verification, for its jobs too, and applies notifications about
// it.
import type { StoredNotification } from '#domain/notifications/notification.ts'
import { disagreement } from '#domain/reconciliation/compare.ts'
import type { Side } from '#domain/reconciliation/side.ts'
import {
  findVerificationByIds,
  findVerificationByReference,
  findTime,
  type KnownVerification,
} from '#domain/verifications/find.ts'
import {
  settleVerifications,
  type VerificationSettlement,
  type VerificationTold,
} from '#domain/verifications/settle.ts'
import type { IdentitySession } from '#providers/identity.ts'
import type { News } from '#providers/news.ts'
import type { WorkerContext } from '../../context.ts'
import { done, type Decision } from '../../decision.ts'
import { addLogFacts } from '../../job-log.ts'
import { settling, type Told } from '../../settle.ts'
import { applied, findBoth, isLook, type RowsOf } from './apply.ts'
import { compare, sided, type ComparedNoun } from './drifts.ts'
import { cancelDuplicate, isUndoableDuplicate, mayBeDuplicate } from './duplicates.ts'
import { wasDrift } from './parked.ts'

const verificationRows: RowsOf<KnownVerification> = {
  noun: 'kyc',
  byReference: ({ sql, identity }, reference) => findVerificationByReference(sql, identity.name, reference),
  byIds: ({ sql }, ids, reference) => findVerificationByIds(sql, ids, reference),
}

const comparedVerification: ComparedNoun = {
  noun: 'kyc',
  ask: async ({ identity }, reference) => sided(await identity.findSession(reference), sideOf),
}

export const settlingVerification = settling<Told<VerificationSettlement>>(
  'settle_kyc',
  settleVerifications,
  ({ told }) => told.kyc_id,
)

export const verificationNews = { apply: applySession, findRow }

/** What the provider says of a session, in our words. `as_of`: the database's time before the provider was asked. */
export function verificationTold(
  ids: { tenant_id: string; kyc_id: string },
  { status, reference, failure }: IdentitySession,
  as_of: string | null,
): VerificationTold {
  return { ...ids, said: status, as_of, provider_reference: reference, failure, link: null }
}

async function findRow({ sql, identity }: WorkerContext, { reference }: News) {
  const verification = await findVerificationByReference(sql, identity.name, reference)
  return verification && { ...verification, compared: comparedVerification }
}

/** The provider's session as one side of a comparison. */
function sideOf({ status, redacted, reference }: IdentitySession): Side {
  const stands = redacted && status === 'canceled' ? 'redacted' : status
  return { status: stands, provider_reference: reference, decided_by: null }
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
  const theirs = sideOf(session)
  const ours = { status, decided_by, provider_reference }
  const differs = disagreement('kyc', { ours, worked_on: true, parked: [] }, theirs)
  if (!isLook(notification) && differs === null && !wasDrift(notification))
    return await applied(notification, of, { tells })
  // One that is decided here may differ there, and then no notification will change it.
  const compareAfter = () =>
    compare(context, comparedVerification, verification, theirs, { reference, news: notification.id })
  return await applied(notification, of, { tells, compareAfter })
}

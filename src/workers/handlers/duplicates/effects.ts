// Recognizes duplicates among a provider's records, and requests their cancellation.
import {
  cancelingDuplicates,
  isCancelable,
  wasCreatedTwice,
  type DuplicateSettlement,
  type CancelableResource,
} from '#domain/reconciliation/duplicates.ts'
import type { WorkerContext } from '../../context.ts'
import { createSettlingStep, type Effects, type SettlementDetails } from '../../settle.ts'

type Row = { tenant_id: string; id: string }
const CANCELING: Record<CancelableResource, (what: SettlementDetails<DuplicateSettlement>) => Effects> = {
  payment: canceling('payment'),
  kyc: canceling('kyc'),
}

function canceling(resource: CancelableResource): (what: SettlementDetails<DuplicateSettlement>) => Effects {
  return createSettlingStep(
    `cancel_duplicate_${resource}`,
    cancelingDuplicates(resource),
    ({ reference }) => reference,
  )
}

/** Requests the cancellation of an object at the provider that duplicates the object of our row. */
export function cancelDuplicate(
  resource: CancelableResource,
  { tenant_id, id }: Row,
  reference: string,
  notification_id: string | null = null,
): Effects {
  return CANCELING[resource]({ tenant_id, id, reference, notification_id })
}

/**
 * Whether a provider's record is a duplicate to cancel: the call of the row was sent under several keys, and canceling
 * the record loses nothing. If the call had only one key, the record may belong to another program that uses our ids.
 */
export async function isUndoableDuplicate(
  { sql }: WorkerContext,
  resource: CancelableResource,
  { tenant_id, id }: Row,
  { status }: { status: string },
): Promise<boolean> {
  return isCancelable(resource, status) && (await wasCreatedTwice(sql, resource, { tenant_id, id }))
}

/**
 * Whether a record may be a duplicate although our row has no reference yet. While a call under a new key is in
 * progress, only its answer shows which record belongs to the row.
 */
export async function mayBeDuplicate(
  { sql }: WorkerContext,
  resource: CancelableResource,
  { tenant_id, id, provider_reference }: Row & { provider_reference: string | null },
): Promise<boolean> {
  if (provider_reference !== null) return false
  return await wasCreatedTwice(sql, resource, { tenant_id, id }, { under_way: true })
}

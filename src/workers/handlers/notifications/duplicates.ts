// Duplicates at a provider: a call was made again although what it made first shows up after all.
import {
  cancelingDuplicates,
  wasMadeAgain,
  type DuplicateSettlement,
  type UndoableNoun,
} from '#domain/reconciliation/duplicates.ts'
import { authorizePayment } from '#jobs/payments.ts'
import { createVerification } from '#jobs/verifications.ts'
import type { WorkerContext } from '../../context.ts'
import { settling, type Tells, type Told } from '../../settle.ts'

type Row = { tenant_id: string; id: string }
type Undoable = {
  /** The call that makes it. */
  operation: string
  /** The statuses of a duplicate that is canceled. */
  statuses: string[]
  tells: (what: Told<DuplicateSettlement>) => Tells
}

const UNDOABLE: Record<UndoableNoun, Undoable> = {
  payment: {
    operation: authorizePayment.call.operation,
    statuses: ['requires_action', 'processing', 'authorized'],
    tells: canceling('payment'),
  },
  kyc: {
    operation: createVerification.call.operation,
    statuses: ['requires_input'],
    tells: canceling('kyc'),
  },
}

function canceling(noun: UndoableNoun): Undoable['tells'] {
  return settling(`cancel_duplicate_${noun}`, cancelingDuplicates(noun), ({ reference }) => reference)
}

/** Asks for the cancellation of a provider's object beside the one that our row knows. */
export function cancelDuplicate(
  noun: UndoableNoun,
  { tenant_id, id }: Row,
  reference: string,
  notification_id: string | null = null,
): Tells {
  return UNDOABLE[noun].tells({ tenant_id, id, reference, notification_id })
}

/**
 * Whether a provider's record is a duplicate that is canceled: the row's call was made again under a new key, and the
 * record holds nothing that cannot be undone. Other copies may be of another program that uses our ids.
 */
export async function isUndoableDuplicate(
  { sql }: WorkerContext,
  noun: UndoableNoun,
  { tenant_id, id }: Row,
  { status }: { status: string },
): Promise<boolean> {
  const { operation, statuses } = UNDOABLE[noun]
  return statuses.includes(status) && (await wasMadeAgain(sql, operation, { tenant_id, id }))
}

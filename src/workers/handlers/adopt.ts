// Decides about the object of a lost request whose idempotency key was used again with other content.
import { metrics } from '#core/metrics.ts'
import type { Settlement } from '#domain/jobs/settle.ts'
import { findOrigin, marksIn, type Metadata } from '#domain/provider-metadata.ts'
import type { AdoptedObject } from '#domain/recovered/adopt.ts'
import { hasDifferentMoney } from '#domain/reconciliation/compare.ts'
import type { Side } from '#domain/reconciliation/side.ts'
import type { ProviderResourceName } from '#domain/resources.ts'
import type { WorkerContext } from '../context.ts'
import { failed, type Decision } from '../decision.ts'
import { isTestAttempt } from '../job-log.ts'
import { onceWritten, type Effects } from '../settle.ts'

type OwnSide = Side & { processor_reference: string | null }
type FoundObject = { reference: string; metadata: Metadata; amount_minor: number; currency: string }

/**
 * The object if a request that the database lost has created it for this row, with other content than the present
 * request with its key, whose metadata is `requested`. Undefined: the row must not take its content.
 */
export async function findAdopted(
  { sql }: WorkerContext,
  resource: ProviderResourceName,
  { tenant_id, id }: { tenant_id: string; id: string },
  { row, found, requested }: { row: OwnSide | undefined; found: FoundObject; requested: Metadata },
  columns: AdoptedObject['columns'],
): Promise<AdoptedObject | undefined> {
  const { reference: processor_reference, amount_minor, currency, metadata } = found
  const marks = marksIn(metadata, resource)
  if (marks?.tenant_id !== tenant_id || marks.id !== id || row === undefined) return undefined
  const { fingerprint } = marks
  if (fingerprint === null || fingerprint === requested['sluice_fingerprint']) return undefined
  const is_untouched = (row.processor_reference ?? processor_reference) === processor_reference
  if (
    !is_untouched ||
    (row.status !== 'pending' && hasDifferentMoney(row, { status: '', amount_minor, currency }))
  )
    return undefined
  if (!(await findOrigin(sql, metadata)).is_ours) return undefined
  return { tenant_id, id, fingerprint, processor_reference, amount_minor, currency, columns }
}

/** Refuses the present request. `effects`: the row takes the content of the object. */
export function adopt(
  { log }: WorkerContext,
  resource: ProviderResourceName,
  { tenant_id, id, processor_reference: reference }: AdoptedObject,
  effects: Effects,
): Decision {
  const failure: NonNullable<Settlement['error']> = {
    code: 'idempotency_key_reused',
    message: 'The idempotency key was used before with other content.',
    context: { resource_id: id },
  }
  const reported = onceWritten(effects, () => {
    log.warn(
      { tenant_id, [`${resource}_id`]: id, reference },
      `the ${resource} of a lost request was recovered: its key was used again with other content`,
    )
    if (!isTestAttempt()) metrics.rowsRecovered.inc({ resource })
  })
  return failed(failure, { reference, effects: reported })
}

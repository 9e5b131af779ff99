// Makes lost rows again: a record that this installation has created has no row, because the database went back in
// time.
import { metrics } from '#core/metrics.ts'
import { findOrigin, marksIn, type ObjectMarks } from '#domain/provider-metadata.ts'
import type { WorkerContext } from '../../context.ts'
import { isTestAttempt } from '../../job-log.ts'
import { findRowOfRecord, type MarkedRecord, type RowFinder } from './rows.ts'

/** Inserts the row of a record. Returns whether it was inserted, or what is missing in the record. */
export type RecoverRow<Found> = (
  context: WorkerContext,
  marks: ObjectMarks,
  record: Found,
) => Promise<boolean | { problem: string }>

/**
 * Makes the row of a record again. Returns the row, or the problem for which that is impossible. Undefined: this
 * installation has not created the record, or not in this mode.
 */
export async function recoverRow<Row, Found extends MarkedRecord>(
  context: WorkerContext,
  rows: RowFinder<Row>,
  record: Found,
  recover: RecoverRow<Found>,
): Promise<{ row: Row } | { problem: string; tenant_id: string | null } | undefined> {
  const { sql, log, modes, livemode } = context
  const { resource } = rows
  const { is_ours, has_tenant } = await findOrigin(sql, record.metadata)
  if (!is_ours) return undefined
  const marks = marksIn(record.metadata, resource)
  if (marks === undefined) return { problem: 'its metadata does not name its row', tenant_id: null }
  const { tenant_id, id } = marks
  // An object of the test account that carries the marks of a live row is a copy of them, and the other way round.
  if (has_tenant && ((await modes.modeOf(tenant_id)) === 'live') !== livemode) return undefined
  if (!has_tenant) return { problem: `its tenant ${tenant_id} does not exist`, tenant_id: null }
  const inserted = await recover(context, marks, record)
  if (typeof inserted === 'object') return { ...inserted, tenant_id }
  const row = await findRowOfRecord(context, rows, record)
  if (row === undefined)
    return { problem: `another ${resource} has its idempotency key or its place`, tenant_id }
  if (!inserted) return { row }
  const { reference } = record
  log.warn({ tenant_id, [`${resource}_id`]: id, reference }, `a lost ${resource} was made again`)
  if (!isTestAttempt()) metrics.rowsRecovered.inc({ resource })
  return { row }
}

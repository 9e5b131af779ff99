// Finds our rows of the records of providers.
import { rowIdsIn, type Metadata } from '#domain/provider-metadata.ts'
import type { ProviderResourceName } from '#domain/resources.ts'
import type { WorkerContext } from '../../context.ts'

/** Finds our rows of a resource. */
export type RowFinder<Row> = {
  resource: ProviderResourceName
  byReference(context: WorkerContext, reference: string): Promise<Row | undefined>
  /** Finds a row by our ids. With a `reference`, finds the row only if it has this reference or none. */
  byIds(context: WorkerContext, ids: RowIds, reference: string | null): Promise<Row | undefined>
}
export type RowIds = { tenant_id: string; id: string }
/** A provider's record with the metadata that we sent. */
export type MarkedRecord = { reference: string; metadata: Metadata }

/**
 * A row that a notification names; undefined if its tenant is of the other mode, or has another sandbox. An object of
 * the test account never changes a live row, whatever its metadata says, nor the other way round.
 */
export async function withinMode<Row extends { tenant_id: string }>(
  { modes, livemode, sandbox_of }: WorkerContext,
  row: Row | undefined,
): Promise<Row | undefined> {
  if (row === undefined || (sandbox_of !== null && sandbox_of !== row.tenant_id)) return undefined
  return ((await modes.modeOf(row.tenant_id)) === 'live') === livemode ? row : undefined
}

/** A finder that finds only rows of tenants of the context's mode. */
export function findingWithinMode<Row extends { tenant_id: string }>(rows: RowFinder<Row>): RowFinder<Row> {
  return {
    resource: rows.resource,
    byReference: async (context, reference) =>
      await withinMode(context, await rows.byReference(context, reference)),
    byIds: async (context, ids, reference) =>
      await withinMode(context, await rows.byIds(context, ids, reference)),
  }
}

/**
 * Finds our row of a provider's record. First by our ids in the metadata, because a notification may arrive before the
 * answer with the reference. Otherwise by the reference, because a record can lose its metadata. A row with another
 * reference does not match: an object with copied metadata is not ours.
 */
export async function findRowOfRecord<Row>(
  context: WorkerContext,
  rows: RowFinder<Row>,
  record: MarkedRecord,
): Promise<Row | undefined> {
  return (
    (await findByOwnIds(context, rows, record, record.reference)) ??
    (await rows.byReference(context, record.reference))
  )
}

/** Finds our row of a record by our ids in the metadata. `reference`: as in `RowFinder`. */
export async function findByOwnIds<Row>(
  context: WorkerContext,
  rows: RowFinder<Row>,
  { metadata }: MarkedRecord,
  reference: string | null,
): Promise<Row | undefined> {
  const ids = rowIdsIn(metadata, rows.resource)
  return ids && (await rows.byIds(context, ids, reference))
}

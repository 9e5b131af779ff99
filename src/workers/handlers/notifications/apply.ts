// Shared by all resources: finds the row and the record of a notification, and ends the notification.
import type { Outcome } from '#core/outcome.ts'
import { LOOKUP_KIND, type StoredNotification } from '#domain/notifications/notification.ts'
import { findRowSnapshot } from '#domain/reconciliation/drift.ts'
import type { Side } from '#domain/reconciliation/side.ts'
import type { ProviderResourceName, ResourceKey } from '#domain/resources.ts'
import type { ProviderEventTarget } from '#providers/events.ts'
import type { WorkerContext } from '../../context.ts'
import { done, continueWith, park, unanswered, type Decision } from '../../decision.ts'
import { addLogFacts } from '../../job-log.ts'
import type { Effects } from '../../settle.ts'
import { compare, type ComparedResource } from './drifts.ts'
import { parkOrphan } from './orphans.ts'
import { retryQuery, notificationEffects, finish, parkFor, wasParkedFor } from './parked.ts'
import { recoverRow, type RecoverRow } from './recover.ts'
import { findByOwnIds, findRowOfRecord, type MarkedRecord, type RowFinder, type RowIds } from './rows.ts'

/** Whether the notification is our own request to look up an object. */
export function isLookup({ kind }: StoredNotification): boolean {
  return kind === LOOKUP_KIND
}

/**
 * Finds the provider's record of the object of an event, and our row of the record. Returns the decision if one of them
 * is missing. For resources without a parent.
 *
 * A duplicate is a record whose metadata has the ids of a row with another reference. `decideDuplicate` may decide
 * about a duplicate; otherwise `park_duplicates` says whether its notification is parked until an operator acts.
 * `isPossibleDuplicate`: whether the record may be a duplicate although the row has no reference yet. Such a
 * notification waits for the reference.
 */
export async function findRowAndRecord<Row extends RowIds, Found extends MarkedRecord & { status: string }>(
  context: WorkerContext,
  notification: StoredNotification,
  target: ProviderEventTarget,
  {
    compared: resource,
    rows,
    query,
    sideOf,
    recover,
    park_duplicates,
    decideDuplicate = () => Promise.resolve(undefined),
    isPossibleDuplicate = () => Promise.resolve(false),
  }: {
    compared: ComparedResource
    rows: RowFinder<Row>
    query: () => Promise<Outcome<Found | null>>
    sideOf: (record: Found) => Side
    /** Makes the row of a record again, if the record is ours and has no row. */
    recover: RecoverRow<Found>
    park_duplicates: boolean
    decideDuplicate?: (row: Row, record: Found) => Promise<Decision | undefined>
    isPossibleDuplicate?: (row: Row, record: Found) => Promise<boolean>
  },
): Promise<{ row: Row; record: Found } | { decision: Decision }> {
  const { reference, has_sluice_ids } = target
  const is_lookup = isLookup(notification)
  const find = () => rows.byReference(context, reference)
  // An object without Sluice ids and without a row here belongs to another application: it is not fetched.
  if (!is_lookup && !has_sluice_ids && (await find()) === undefined)
    return { decision: parkFor(context, notification, 'not_ours', { waits_for: reference }) }
  const lookup = await query()
  if (lookup.kind !== 'done') return { decision: retryQuery(notification, lookup) }
  const record = lookup.value
  const row = record === null ? await find() : await findRowOfRecord(context, rows, record)
  if (row !== undefined && record !== null && (await isPossibleDuplicate(row, record)))
    return {
      decision: is_lookup
        ? finish(notification, 'ignored')
        : parkFor(context, notification, 'not_known_here', { waits_for: reference }),
    }
  if (row !== undefined && record !== null) return { row, record }
  if (row !== undefined && (is_lookup || wasParkedFor(notification, 'not_at_processor'))) {
    const compared = await compare(context, resource, row, null)
    if (compared.kind !== 'done') return { decision: retryQuery(notification, compared) }
  }
  const duplicated_row =
    row === undefined && record !== null ? await findByOwnIds(context, rows, record, null) : undefined
  if (duplicated_row !== undefined && record !== null) {
    // The row may have been made meanwhile, and then it has the reference of this record.
    const made = await findRowOfRecord(context, rows, record)
    if (made !== undefined) return { row: made, record }
    const decision = await decideDuplicate(duplicated_row, record)
    if (decision !== undefined) return { decision }
    if (park_duplicates)
      return {
        decision: await parkDuplicate(context, notification, target, {
          compared: resource,
          row: duplicated_row,
          record,
        }),
      }
  }
  if (record !== null && row === undefined && duplicated_row === undefined) {
    const recovered = await recoverRow(context, rows, record, recover)
    if (recovered !== undefined && 'row' in recovered) return { row: recovered.row, record }
    if (recovered !== undefined)
      return {
        decision: await parkOrphan(context, notification, {
          resource: rows.resource,
          reference,
          theirs: sideOf(record),
          ...recovered,
        }),
      }
  }
  if (is_lookup) return { decision: finish(notification, 'ignored') }
  const reason = record === null ? 'not_at_processor' : 'not_known_here'
  return { decision: parkFor(context, notification, reason, { waits_for: reference }) }
}

/** Statuses of a record whose money did not move, or was returned. */
const STATUSES_WITHOUT_MONEY = ['requires_action', 'failed', 'canceled', 'reversed']

/**
 * Parks the notification of an object whose metadata has the ids of a row with another reference: the provider created
 * a duplicate, or another program uses our ids. Nothing is posted for the object. If the object moves money, the
 * notification stays parked and the row has a drift until an operator resolves it.
 */
async function parkDuplicate(
  context: WorkerContext,
  notification: StoredNotification,
  { reference }: ProviderEventTarget,
  {
    compared: resource,
    row,
    record,
  }: { compared: ComparedResource; row: RowIds; record: { status: string } },
): Promise<Decision> {
  const { tenant_id, id: resource_id } = row
  const key: ResourceKey & { resource: ProviderResourceName } = {
    tenant_id,
    resource: resource.resource,
    resource_id,
  }
  addLogFacts({ tenant_id, [`${resource.resource}_id`]: resource_id })
  const except_id = notification.id
  const ours = await findRowSnapshot(context.sql, { ...key, except_id })
  const is_reported = ours?.parked.some(({ object_id }) => object_id === reference)
  if (is_reported !== true && !STATUSES_WITHOUT_MONEY.includes(record.status)) {
    const reason = `${reference} duplicates this ${resource.resource} at the processor`
    return parkAsDrift(context, notification, {
      compared: resource,
      row,
      cause: { code: 'duplicate', reason },
    })
  }
  if (notification.reason !== 'duplicate') return await endApplied(notification, key, {})
  return await endApplied(notification, key, {
    compareAfter: () => compare(context, resource, row, null, { except_id }),
  })
}

/**
 * Parks a notification until an operator retries or discards its job, and opens a drift of its row. `counts_attempt`:
 * whether this attempt counts even if the provider does not answer the comparison. It must count for a job whose
 * attempts are used up: otherwise the next attempt would run the handler again, and not only repeat the comparison.
 */
export function parkAsDrift(
  context: WorkerContext,
  notification: StoredNotification,
  {
    compared: resource,
    row: { tenant_id, id },
    cause: { code, reason },
    counts_attempt = false,
  }: {
    compared: ComparedResource
    row: RowIds
    cause: { code: 'poison' | 'duplicate'; reason: string }
    counts_attempt?: boolean
  },
): Decision {
  const key = { tenant_id, resource: resource.resource, resource_id: id }
  const effects = notificationEffects(notification, 'parked', { reason: code, of: key })
  return continueWith(effects, async () => {
    const compared = await compare(context, resource, { tenant_id, id }, null)
    return compared.kind === 'done'
      ? park(reason, { code, effects })
      : unanswered(compared, { effects, counts_attempt })
  })
}

/**
 * Ends an applied notification, which is assigned to the row `key`. With `compareAfter` the job ends after this
 * comparison: the job is retried if the provider does not answer, and claimed again if its worker is killed.
 */
export async function endApplied(
  notification: StoredNotification,
  key: ResourceKey,
  { effects, compareAfter }: { effects?: Effects; compareAfter?: () => Promise<Outcome<unknown>> },
): Promise<Decision> {
  if (compareAfter === undefined)
    return effects === undefined ? finish(notification, 'applied', { of: key }) : done({ effects })
  const end = async () => {
    const compared = await compareAfter()
    return compared.kind === 'done'
      ? finish(notification, 'applied', { of: key })
      : retryQuery(notification, compared)
  }
  return effects === undefined ? await end() : continueWith(effects, end)
}

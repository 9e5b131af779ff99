// Applies provider events of parcels by a comparison with the carrier's record.
import type { StoredNotification } from '#domain/notifications/notification.ts'
import { findParcelByTracking } from '#domain/parcels/find.ts'
import type { ProviderEventTarget } from '#providers/events.ts'
import type { WorkerContext } from '../../context.ts'
import type { Decision } from '../../decision.ts'
import { compare } from '../notifications/drifts.ts'
import { retryQuery, finish } from '../notifications/parked.ts'
import { withinMode } from '../notifications/rows.ts'
import { comparedParcel } from './effects.ts'

export const parcelEvent = { apply: applyParcel, findRow }

async function findRow(context: WorkerContext, { reference }: ProviderEventTarget) {
  const { sql, carrier } = context
  const parcel = await withinMode(context, await findParcelByTracking(sql, carrier.name, reference))
  return parcel && { ...parcel, compared: comparedParcel }
}

async function applyParcel(
  context: WorkerContext,
  notification: StoredNotification,
  target: ProviderEventTarget,
): Promise<Decision> {
  const row = await findRow(context, target)
  if (row === undefined) return finish(notification, 'ignored')
  const compared = await compare(context, comparedParcel, row, null)
  return compared.kind === 'done' ? finish(notification, 'applied') : retryQuery(notification, compared)
}

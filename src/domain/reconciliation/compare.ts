// Compares our side of a row with the provider's: settled rows must agree, and a row in progress must have a
// job.
import { moneyText } from '#core/money.ts'
import type { AtProvider } from '../resource.ts'
import { providerResourceOf, statusesUnderWay, type ProviderResourceName } from '../resources.ts'
import type { RowSnapshot } from './drift.ts'
import type { Difference, Side } from './side.ts'

export type Disagreement = Difference & { state: 'stale' | 'differs' }

/**
 * The disagreement of two sides; null if they agree. A row in progress with an open job counts as agreement, unless a
 * notification cannot be applied to our rows, or the provider's record has another amount or currency.
 */
export function disagreement(
  resource: ProviderResourceName,
  { ours, has_open_job, parked }: Pick<RowSnapshot, 'ours' | 'has_open_job' | 'parked'>,
  theirs: Side | null,
): Disagreement | null {
  const { at_provider } = providerResourceOf(resource)
  if (parked.length > 0) {
    const comparison = theirs && at_provider.inWords?.(ours, theirs)
    const details = [...parked.map(parkedText), ...(comparison == null ? [] : [comparison])]
    return { state: 'differs', detail: details.join('; '), transient: false }
  }
  const under_way = statusesUnderWay(resource).includes(ours.status)
  const has_other_money = theirs !== null && hasDifferentMoney(ours, theirs)
  // An object with our ids that never belonged to our row. Once our row is final and the object is reverted, there is
  // nothing to report.
  const is_foreign =
    has_other_money && !under_way && ours[at_provider.reference] !== theirs[at_provider.reference]
  if (is_foreign && at_provider.reverted_statuses?.includes(theirs.status) === true) return null
  if (under_way && has_open_job && !has_other_money) return null
  const state = under_way && !has_other_money ? 'stale' : 'differs'
  if (theirs === null) {
    const detail = `the ${at_provider.provider} has no record of the ${resource}`
    return { state, detail, transient: false }
  }
  const statuses_agree = at_provider.agreeing_statuses[theirs.status]?.includes(ours.status) === true
  if (!statuses_agree || differingColumns(at_provider, ours, theirs).length > 0) {
    const detail = statuses_agree ? null : (at_provider.contradiction?.(ours, theirs) ?? null)
    return { state, detail, transient: false }
  }
  const difference = at_provider.difference?.(ours, theirs) ?? null
  return difference && { state, ...difference }
}

/** The compared columns of a provider's record. */
export function sideFrom(resource: ProviderResourceName, record: Side): Side {
  return { ...providerResourceOf(resource).at_provider.side.parse(record), status: record.status }
}

/** Whether the provider's record has another amount or currency, which no job of ours changes. */
export function hasDifferentMoney(ours: Side, theirs: Side): boolean {
  return ['amount_minor', 'currency'].some((column) => isDifferent(ours[column], theirs[column]))
}

/** The columns in which both sides have different values. */
function differingColumns(at_provider: AtProvider, ours: Side, theirs: Side): string[] {
  const has_own_comparison = at_provider.difference !== undefined
  const columns = has_own_comparison ? ['amount_minor', 'currency'] : Object.keys(at_provider.side.shape)
  return columns.filter((column) => column !== 'status' && isDifferent(ours[column], theirs[column]))
}

function isDifferent(ours: Side[string], theirs: Side[string]): boolean {
  return ours != null && theirs != null && ours !== theirs
}

function parkedText({ object_id, reason, amount_minor, currency }: RowSnapshot['parked'][number]): string {
  if (reason === 'duplicate') {
    const of = amount_minor === null || currency === null ? '' : `, of ${moneyText(amount_minor, currency)}`
    return `the processor has a duplicate, ${object_id}${of}`
  }
  return reason === 'does_not_fit'
    ? `${object_id} of the processor exceeds the amount that is captured and not reserved here`
    : `a notification of ${object_id} is parked (${reason})`
}

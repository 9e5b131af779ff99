// Keeps duplicates out of settlements: a row belongs to the object whose reference it stores, and updates of other
// objects are not settled. Only a check under the row's lock can ensure that. Verifications do not use this: a
// duplicate session moves no money. Refunds do not either: each refund of the processor is imported under its payment.
import type { Fragment, Sql, Tx } from '#core/db.ts'

/**
 * The parts `locked` and `duplicate` of a settling statement. Both select from the part `seen`, which has each update,
 * the `processor` of the locked row, and the row's reference as `stored_reference`. `locked`: the updates that may be
 * settled. `duplicate`: the input of `requestingLookups`; the lookups open drifts for the other objects. `too_late`:
 * the condition on `seen` under which a row without a reference is final and accepts no object any more.
 */
export function exceptDuplicates(sql: Sql | Tx, too_late: Fragment = sql`false`): Fragment {
  return sql`
    locked as (
      select * from seen
      where coalesce(stored_reference = processor_reference, not (processor_reference is not null and ${too_late}))
    ), duplicate as (
      select tenant_id, processor as provider, processor_reference as reference, 'duplicate' as name from seen
      where coalesce(stored_reference <> processor_reference, processor_reference is not null and ${too_late})
    )`
}

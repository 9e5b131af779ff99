// Two objects of a provider for one row: the row belongs to the one whose reference it knows, and nothing is settled with
// the other. Who reads the row before it is locked cannot rule that out. Verifications do not use this: a second session moves
// no money. Nor do refunds: each that the processor has is imported under its payment.
import type { Fragment, Sql, Tx } from '#core/db.ts'

/**
 * The parts `locked` and `second` of a settling statement, out of `seen`: what was told of each row, with the locked
 * row's `processor` and, as `stored_reference`, its reference. Only `locked` may be settled. `second` is what `requestLookups`
 * takes: the looks show the other objects as drifts. `too_late`: a condition on `seen`; a row without a reference has
 * ended, and what was told is of an object that it does not take any more.
 */
export function exceptDuplicates(sql: Sql | Tx, too_late: Fragment = sql`false`): Fragment {
  return sql`
    locked as (
      select * from seen
      where coalesce(stored_reference = processor_reference, not (processor_reference is not null and ${too_late}))
    ), duplicate as (
      select processor as provider, processor_reference as reference, 'duplicate' as name from seen
      where coalesce(stored_reference <> processor_reference, processor_reference is not null and ${too_late})
    )`
}

// Two objects of a provider for one row: the row belongs to the one whose reference it knows, and nothing is settled with
// the other. Who reads the row before it is locked cannot rule that out. Verifications do not use this: a second session moves
// no money. Nor do refunds: each that the processor has is imported under its payment.
import type { Fragment, Sql, Tx } from '#core/db.ts'
import { storeNotifications } from '../notifications/store.ts'
import type { ProviderNoun } from '../subjects.ts'
import { lookAt } from './looks.ts'

/** What a settling statement may return of a job: the other object that its row was told of. */
export type Seconded = { second_processor: string | null; second_reference: string | null }

/**
 * The parts `locked` and `second` of a settling statement, out of `seen`: what was told of each row, with the locked row's
 * `processor` and, as `known_reference`, its reference. Only `locked` may be settled. `too_late`: a condition on `seen`; a row
 * without a reference has ended, and what was told is of an object that it does not take any more.
 */
export function withoutSeconds(sql: Sql | Tx, too_late: Fragment = sql`false`): Fragment {
  return sql`
    locked as (
      select * from seen
      where coalesce(known_reference = processor_reference, not (processor_reference is not null and ${too_late}))
    ), second as (
      select job_id, processor as second_processor, processor_reference as second_reference from seen
      where coalesce(known_reference <> processor_reference, processor_reference is not null and ${too_late})
    )`
}

/** Asks for looks at the other objects, which show them as drifts. */
export async function lookAtSeconds(sql: Sql | Tx, subject: ProviderNoun, rows: Seconded[]): Promise<void> {
  const looks = rows.flatMap(({ second_processor, second_reference }) =>
    second_processor === null || second_reference === null
      ? []
      : [lookAt(second_processor, { subject, reference: second_reference }, 'second')],
  )
  if (looks.length > 0) await storeNotifications(sql, looks)
}

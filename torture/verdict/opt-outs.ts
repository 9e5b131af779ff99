// Judges opt-out keywords: the keyword that was received last decides whether the number is suppressed.
import type { Problem } from '#test/invariants.ts'
import type { System } from '../system.ts'

export const OVERRULED = 'an opt-out keyword was overruled by an earlier one'

/** Does not compare tenants, because each number belongs to one scenario and so to one tenant. */
export async function overruledOptOuts({ sql }: Pick<System, 'sql'>): Promise<Problem[]> {
  return await sql<Problem[]>`
    select ${OVERRULED} as problem, w.id, w.kind, w.received_at
    from (
      select distinct on (address) * from (
        -- After a switch, lost keywords are read from the provider's list, which says when they were received.
        select id, kind, coalesce((payload ->> 'received_at')::timestamptz, received_at) as received_at,
          payload ->> 'from' as address
        from notifications where kind in ('sms.opt_out', 'sms.opt_in') and state = 'applied'
      ) keyword
      order by address, received_at desc, id desc
    ) w
    where (w.kind = 'sms.opt_out') <> exists (
      select from suppressions s
      where s.channel = 'sms' and s.address = w.address and s.reason = 'opt_out' and s.deleted_at is null
        -- A refusal by the provider is another reason for a suppression.
        and (w.kind = 'sms.opt_out' or coalesce(s.happened_at, s.created_at) <= w.received_at))`
}

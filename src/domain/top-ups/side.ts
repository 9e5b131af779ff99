// A top-up as one side of a comparison with the processor.
import { z } from 'zod'
import type { Fragment, Sql, Tx } from '#core/db.ts'
import { AMOUNT_SIDE, sameAmount } from '../reconciliation/side.ts'

export const topUpSide = z.object(AMOUNT_SIDE)

/** That it is pending is never news; that it came is none when it has come here, whatever happened then. */
export function topUpTellsNothing(sql: Sql | Tx): Fragment {
  return sql`
    ${sameAmount(sql)} and case said.status
      when 'pending' then true
      when 'succeeded' then r.succeeded_at is not null
      when 'reversed' then r.status = 'failed' and r.succeeded_at is not null
      when 'failed' then r.status = 'failed' and r.succeeded_at is null
      else said.status = r.status end`
}

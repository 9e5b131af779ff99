// A top-up as one side of a comparison with the processor.
import { z } from 'zod'
import type { Fragment, Sql, Tx } from '#core/db.ts'
import { AMOUNT_SIDE, sameAmount, type Side } from '../reconciliation/side.ts'

export const topUpSide = z.object(AMOUNT_SIDE)

/** What ours and theirs are, where they contradict each other. */
export function topUpContradiction(ours: Side, theirs: Side): string | null {
  const here = { failed: 'has failed', canceled: 'is canceled' }[ours.status]
  const there = { pending: 'is bringing the money in', succeeded: 'has brought the money in' }[theirs.status]
  if (here === undefined || there === undefined) return null
  return `the top-up ${here} here, and the processor ${there} all the same`
}

/** That it is pending is never news; that it came is none when it has come here, whatever happened then. */
export function topUpTellsNothing(sql: Sql | Tx): Fragment {
  return sql`
    ${sameAmount(sql)} and case said.status
      when 'pending' then true
      when 'succeeded' then r.came_minor > 0
      when 'reversed' then r.reversed_minor > 0
      when 'failed' then r.status = 'failed' and r.came_minor = 0
      else said.status = r.status end`
}

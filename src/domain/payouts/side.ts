// A payout as one side of a comparison with the processor.
import { z } from 'zod'
import type { Fragment, Sql, Tx } from '#core/db.ts'
import { AMOUNT_SIDE, sameAmount, type Side } from '../reconciliation/side.ts'

export const payoutSide = z.object({
  ...AMOUNT_SIDE,
  out_minor: z.int().meta({
    description: 'What was paid of it and has not come back; of payouts only.',
    example: 1000,
  }),
})

/** What ours and theirs are, where they contradict each other. */
export function payoutContradiction(ours: Side, theirs: Side): string | null {
  const here = { failed: 'has failed', canceled: 'is canceled' }[ours.status]
  const there = { processing: 'is paying it', paid: 'has paid it' }[theirs.status]
  if (here === undefined || there === undefined) return null
  return `the payout ${here} here, and the processor ${there} all the same`
}

/**
 * What is on its way there is no news once the processor is known to have it; what was paid there is none when as much
 * has come back here. A failure always is: it says why.
 */
export function payoutTellsNothing(sql: Sql | Tx): Fragment {
  return sql`
    ${sameAmount(sql)} and case said.status
      when 'processing' then r.processor_status is not null
      when 'paid' then r.status = 'paid' and r.returned_minor >= coalesce(said.part_minor, 0)
      when 'canceled' then r.status = 'canceled' and r.processor_status = 'canceled'
      else false end`
}

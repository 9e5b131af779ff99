// The definition of the resource `top_up`, and its comparison with the processor's top-up.
import { z } from 'zod'
import type { Fragment, Sql, Tx } from '#core/db.ts'
import { checksOfTopUps } from '../audit/top-ups.ts'
import { AMOUNT_SIDE, sameAmount, type Side } from '../reconciliation/side.ts'
import { isAcceptedByProvider, type Resource } from '../resource.ts'
import { TOP_UP_EVENTS, topUpSchema } from './top-up.ts'

export const topUpResource = {
  table: 'top_ups',
  view: topUpSchema,
  events: TOP_UP_EVENTS,
  transfer_kinds: ['top_up', 'top_up_reversed'],
  under_way: {
    open: (sql) => sql`p.status = 'pending'`,
    awaits_provider: (sql) => isAcceptedByProvider(sql, 'top_up', sql`p.id`),
  },
  at_provider: {
    scope: 'wallet:read',
    provider: 'processor',
    reference: 'processor_reference',
    side: z.object(AMOUNT_SIDE),
    isRedundant: topUpIsRedundant,
    contradiction: topUpContradiction,
    agreeing_statuses: {
      pending: ['pending'],
      succeeded: ['succeeded'],
      // In each of these statuses the money never arrived or was taken back.
      failed: ['failed', 'canceled'],
      canceled: ['canceled', 'failed'],
      reversed: ['failed', 'canceled'],
    },
    reverted_statuses: ['failed', 'canceled', 'reversed'],
  },
  checks: checksOfTopUps,
} as const satisfies Resource

/** The text about two sides with contradictory statuses. */
function topUpContradiction(ours: Side, theirs: Side): string | null {
  const here = { failed: 'has failed', canceled: 'is canceled' }[ours.status]
  const there = { pending: 'is bringing the money in', succeeded: 'has brought the money in' }[theirs.status]
  if (here === undefined || there === undefined) return null
  return `the top-up ${here} here, but the processor ${there}`
}

/**
 * The condition under which a report adds nothing: `pending` always, the other statuses when they are settled
 * already.
 */
function topUpIsRedundant(sql: Sql | Tx): Fragment {
  return sql`
    ${sameAmount(sql)} and case reported.status
      when 'pending' then true
      when 'succeeded' then r.received_minor > 0
      when 'reversed' then r.reversed_minor > 0
      when 'failed' then r.status = 'failed' and r.received_minor = 0
      else reported.status = r.status end`
}

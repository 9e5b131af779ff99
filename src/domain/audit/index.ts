// The registry of checks, grouped by what each can be limited to.
import type { Fragment, Sql, Tx } from '#core/db.ts'
import { NOUNS, subjectOf } from '../subjects.ts'
import { balances, calls, jobs, keys, tenants, transfers, type AuditScope, type Checks } from './checks.ts'
import { notifications } from './notifications.ts'

/** Checks of payments and what belongs to them; they can be limited to some payments. */
export const CHECKS_OF_PAYMENTS: Checks = {
  transfers,
  calls,
  ...Object.fromEntries(NOUNS.flatMap((noun) => Object.entries(subjectOf(noun).checks.of_payments ?? {}))),
}

/** Checks of rows by the time when they arrived; they can be limited to a time. */
export const CHECKS_OF_A_TIME: Checks = { keys, tenants }

/** Checks of open jobs and notifications, of which there are never many. */
export const CHECKS_OF_WHAT_IS_OPEN: Checks = { jobs, notifications }

/** Checks that are made in parts: by tenant, or by rows that are under way. */
export const CHECKS_IN_PARTS = { balances, in_flight } satisfies Checks

export const CHECKS: Checks = {
  ...CHECKS_OF_PAYMENTS,
  ...CHECKS_IN_PARTS,
  ...CHECKS_OF_WHAT_IS_OPEN,
  ...CHECKS_OF_A_TIME,
}

/** A job works on every row that is under way, for all nouns. */
function in_flight(sql: Sql | Tx, { under_way }: AuditScope): Fragment {
  return NOUNS.flatMap((noun) => {
    const [check, rows] = [subjectOf(noun).checks.in_flight, under_way.get(noun)]
    return check === undefined || rows === undefined ? [] : [check(sql, rows)]
  }).reduce((all, each) => sql`${all} union all ${each}`)
}

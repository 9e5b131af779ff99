// The registry: every check that there is, by what it can be made of.
import type { Fragment, Sql, Tx } from '#core/db.ts'
import { NOUNS, subjectOf } from '../subjects.ts'
import { balances, calls, jobs, keys, tenants, transfers, type AuditScope, type Checks } from './checks.ts'
import { notifications } from './notifications.ts'

/** Checks that look at payments and what belongs to them: possible for a part of the payments too. */
export const CHECKS_OF_PAYMENTS: Checks = {
  transfers,
  calls,
  ...Object.assign({}, ...NOUNS.map((noun) => subjectOf(noun).checks.of_payments)),
}

/** Checks that look at what arrived in a time: possible for a part of the time too. */
export const CHECKS_OF_A_TIME: Checks = { keys, tenants }

/** Checks of what is open, which is never much, or of few rows. */
export const CHECKS_OF_WHAT_IS_OPEN: Checks = { jobs, notifications }

/** Checks that are made a part at a time, where much is open and accounts are many. */
export const CHECKS_IN_PARTS = { balances, in_flight } satisfies Checks

export const CHECKS: Checks = {
  ...CHECKS_OF_PAYMENTS,
  ...CHECKS_IN_PARTS,
  ...CHECKS_OF_WHAT_IS_OPEN,
  ...CHECKS_OF_A_TIME,
}

/** What is on its way has a job that works on it. */
function in_flight(sql: Sql | Tx, { under_way }: AuditScope): Fragment {
  return NOUNS.flatMap((noun) => {
    const [check, rows] = [subjectOf(noun).checks.in_flight, under_way.get(noun)]
    return check === undefined || rows === undefined ? [] : [check(sql, rows)]
  }).reduce((all, each) => sql`${all} union all ${each}`)
}

// The registry of checks, grouped by what each can be limited to.
import { unionAll, type Fragment, type Sql, type Tx } from '#core/db.ts'
import { filedBy, NOUNS, paymentOf, statusesOfCalls, subjectOf, worksOn } from '../subjects.ts'
import {
  balances,
  calls,
  jobs,
  keys,
  noNumbers,
  tenants,
  transfers,
  type AuditScope,
  type Checks,
} from './checks.ts'
import { notifications } from './notifications.ts'

/** Checks of payments and what belongs to them; they can be limited to some payments. */
export const CHECKS_OF_PAYMENTS: Checks = {
  transfers,
  calls,
  ...Object.fromEntries(NOUNS.flatMap((noun) => Object.entries(subjectOf(noun).checks ?? {}))),
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

/** A job works on every row whose provider call is under way, unless the row is left to the provider. */
function in_flight(sql: Sql | Tx, { under_way }: AuditScope): Fragment {
  const checks = NOUNS.flatMap((noun) => {
    const rows = under_way.get(noun)
    const entry = subjectOf(noun).under_way
    if (rows === undefined || entry === undefined) return []
    const left = entry.left_to_provider?.(sql) ?? sql`false`
    return [
      sql`
        select ${`a ${noun} is under way and nothing works on it`}::text as problem, p.tenant_id,
          ${paymentOf(sql, noun, 'p')} as payment_id, p.id::text as id, p.status || ' since ' || p.updated_at as what,
          ${noNumbers(sql)}
        from ${rows} p
        where ${entry.open(sql)} and p.status = any(${statusesOfCalls(noun)}::text[]) and not ${left}
          and not exists (
            select from jobs j where j.tenant_id = p.tenant_id and j.subject_id = ${sql(`p.${filedBy(noun)}`)}
              and ${worksOn(sql, noun, sql`p.id`)} and j.finished_at is null)`,
    ]
  })
  return unionAll(sql, checks)
}

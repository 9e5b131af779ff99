// The registry of checks, grouped by what each can be limited to.
import { unionAll, type Fragment, type Sql, type Tx } from '#core/db.ts'
import { worksOn } from '../subject.ts'
import { filedBy, NOUNS, rootOf, statusesOfCalls, subjectOf, type Noun } from '../subjects.ts'
import { balances, keys, noNumbers, tenants, transfers, type AuditScope, type Checks } from './checks.ts'
import { corrections } from './corrections.ts'
import { checksOfDeliveries, checksOfLines } from './deliveries.ts'
import { feed } from './feed.ts'
import { calls, jobs } from './jobs.ts'
import { notifications } from './notifications.ts'
import { people } from './people.ts'

/** Checks of what any row has; they can be limited to some rows. */
const CHECKS_OF_ALL_ROWS: Checks = { transfers, calls }

/** Checks of a noun that is no part of another, and of its parts; they can be limited to some of its rows. */
export function checksOfRows(root: Noun): Checks {
  return { ...CHECKS_OF_ALL_ROWS, ...checksOf(NOUNS.filter((noun) => rootOf(noun) === root)) }
}

/** The nouns, no parts of others, whose rows are audited when they change: they have checks or provider calls. */
export const AUDITED_NOUNS = NOUNS.filter(
  (root) =>
    rootOf(root) === root &&
    NOUNS.some((noun) => {
      const { checks, under_way } = subjectOf(noun)
      return rootOf(noun) === root && (checks !== undefined || under_way !== undefined)
    }),
)

/** Checks of rows by the time when they arrived; they can be limited to a time. */
export const CHECKS_OF_A_TIME: Checks = { keys, tenants, feed, people, corrections, ...checksOfDeliveries }

/** Checks of open jobs and notifications, of which there are never many. */
export const CHECKS_OF_WHAT_IS_OPEN: Checks = { jobs, notifications }

/** Checks that are made tenant by tenant. */
export const CHECKS_OF_A_TENANT: Checks = {
  balances,
  ...checksOfLines,
  ...Object.fromEntries(NOUNS.flatMap((noun) => Object.entries(subjectOf(noun).checks_by_tenant ?? {}))),
}

/** Checks of rows that are under way, made a part of them at a time. */
export const CHECKS_OF_WHAT_IS_UNDER_WAY: Checks = { in_flight }

export const CHECKS: Checks = {
  ...CHECKS_OF_ALL_ROWS,
  ...checksOf(NOUNS),
  ...CHECKS_OF_A_TENANT,
  ...CHECKS_OF_WHAT_IS_UNDER_WAY,
  ...CHECKS_OF_WHAT_IS_OPEN,
  ...CHECKS_OF_A_TIME,
}

function checksOf(nouns: readonly Noun[]): Checks {
  return Object.fromEntries(nouns.flatMap((noun) => Object.entries(subjectOf(noun).checks ?? {})))
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
          ${rootOf(noun)}::text as subject, ${sql(`p.${filedBy(noun)}`)} as subject_id,
          p.id::text as id, p.status || ' since ' || p.updated_at as what, ${noNumbers(sql)}
        from ${rows} p
        where ${entry.open(sql)} and p.status = any(${statusesOfCalls(noun)}::text[]) and not ${left}
          and not exists (
            select from jobs j where j.tenant_id = p.tenant_id and j.subject_id = ${sql(`p.${filedBy(noun)}`)}
              and ${worksOn(sql, noun, sql`p.id`)} and j.finished_at is null)`,
    ]
  })
  return unionAll(sql, checks)
}

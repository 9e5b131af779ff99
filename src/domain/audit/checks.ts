// The invariants as SQL: each check selects the rows that violate it.
import { unionAll, type Fragment, type Sql, type Tx } from '#core/db.ts'

/** A violation and its location. `off_by` is found minus expected. */
export type Problem = {
  /** The name of the check, as registered in `index.ts`. */
  check: string
  problem: string
  tenant_id: string | null
  /** The resource and the id of the root row with the violation; null if the violation belongs to no root row. */
  resource: string | null
  resource_id: string | null
  /** The row at fault, or the row that it references. */
  id: string | null
  /** The row's state, kind or account. */
  what: string | null
  expected: number | null
  found: number | null
  off_by: number | null
  /** The currency of the amounts, which are in minor units; null for other numbers. */
  currency: string | null
}

/** A check selects the fields of `Problem` in order, except `check`. */
type Check = (sql: Sql | Tx, scope: AuditScope, limits: Limits) => Fragment

/** Checks by name. */
export type Checks = Readonly<Record<string, Check>>

/** The rows that an audit covers: sources for a `from` clause, each used with an alias. */
export type AuditScope = {
  /** The rows of a root resource. */
  rowsOf: (resource: string) => Fragment
  /** The jobs and transfers of the audited rows and of their child rows, or all jobs and transfers. */
  jobs: Fragment
  ledger_transfers: Fragment
  /** For each resource, a source that includes its rows in progress. */
  under_way: ReadonlyMap<string, Fragment>
  /** For checks by tenant, the audited tenants: a condition on `tenant_id`. */
  tenant_condition: Fragment
  /**
   * Every resource with a table: its root resource and the column of the root's id, the columns of the
   * provider's id, the condition under which a row reserves its amount, and the kinds of transfers that it
   * posts.
   */
  resources: readonly {
    resource: string
    table: string
    root: string
    root_id_column: string
    provider?: string
    reference?: string
    reserves?: (sql: Sql | Tx) => Fragment
    transfer_kinds: readonly string[]
  }[]
}

export type Limits = {
  /** An open job is stuck if it has been due, or its lease has lapsed, for longer than this. */
  stuck_after_s: number
  /** The audited period, ISO 8601; null means no limit. It applies only to checks that belong to no single row. */
  since: string | null
  until: string | null
}

/** The running balance of `available` after a transfer is the previous one plus the change by the transfer. */
export function transfers(sql: Sql | Tx, { ledger_transfers, resources }: AuditScope): Fragment {
  const rows = resources.map(
    ({ table, root, root_id_column }) => sql`
      select ${root}::text as resource, ${sql(`r.${root_id_column}`)} as resource_id from ${sql(table)} r
      where r.tenant_id = t.tenant_id and r.id = t.subject_id`,
  )
  return sql`
    select 'a running balance does not follow from the previous one' as problem, t.tenant_id, of.resource,
      of.resource_id, t.id::text as id, t.kind || ' ' || t.currency as what, t.expected,
      t.balance_after_minor as found, t.balance_after_minor - t.expected as off_by,
      t.currency
    from (
      select t.*, follows.expected from ${ledger_transfers} t
      left join lateral (
        select before.balance_after_minor from ledger_transfers before
        where before.tenant_id = t.tenant_id and before.currency = t.currency and before.seq = t.seq - 1 offset 0
      ) before on true
      cross join lateral (
        select case when t.seq = 1 then 0 else before.balance_after_minor end + ${changeOfAvailable(sql)} as expected
      ) follows
      where t.seq is not null and follows.expected is distinct from t.balance_after_minor
      -- The root row is looked up only for a wrong balance.
      offset 0
    ) t
    left join lateral (${unionAll(sql, rows)}) of on true`
}

/**
 * The resource fields of a problem, null: the problem belongs to no single row, or its check runs in every audit, so
 * that the row need not be audited again.
 */
export function noResource(sql: Sql | Tx): Fragment {
  return sql`null::text as resource, null::uuid as resource_id`
}

/** The numeric fields of a problem without numbers. */
export function noFigures(sql: Sql | Tx): Fragment {
  return sql`null::bigint as expected, null::bigint as found, null::bigint as off_by, null::text as currency`
}

/** Each balance is the sum of its transfers; each reserved amount is the sum of the rows that reserve it. */
export function balances(sql: Sql | Tx, { tenant_condition, resources }: AuditScope): Fragment {
  const reservations = resources.flatMap(({ table, reserves }) =>
    reserves === undefined
      ? []
      : [
          sql`
            select p.tenant_id, upper(p.currency) as currency, p.amount_minor from ${sql(table)} p
            where ${tenant_condition} and ${reserves(sql)}`,
        ],
  )
  const no_reservations = sql`select null::uuid as tenant_id, null::text as currency, 0::bigint as amount_minor
    where false`
  return sql`
    select finding.problem, tenant_id, ${noResource(sql)}, null::text as id, currency || ' ' || account as what,
      finding.expected::bigint as expected, finding.found::bigint as found,
      (finding.found - finding.expected)::bigint as off_by, case when is_money then currency end as currency
    from (select *, name as account from ledger_accounts where ${tenant_condition}) a
    full join (
      select tenant_id, currency, leg.account, sum(leg.delta) as balance, count(*) as transfers from ledger_transfers
      cross join lateral (values (debit_account, -amount_minor), (credit_account, amount_minor)) leg(account, delta)
      where ${tenant_condition} group by 1, 2, 3
    ) t using (tenant_id, currency, account)
    full join (
      select tenant_id, currency, 'available' as account, sum(amount_minor) as reserved
      from (${unionAll(sql, [no_reservations, ...reservations])}) reserving group by 1, 2
    ) r using (tenant_id, currency, account)
    cross join lateral (values
      ('a balance is not the sum of its transfers', true, coalesce(t.balance, 0), coalesce(a.balance_minor, 0)),
      ('the transfer count of an account is wrong', false, coalesce(t.transfers, 0), coalesce(a.last_seq, 0)),
      ('a reserved amount is not the sum of its reservations', true, coalesce(r.reserved, 0),
        coalesce(a.reserved_minor, 0))
    ) as finding(problem, is_money, expected, found)
    where finding.found <> finding.expected`
}

/** The sum posted to `available` for `subject_id`, in the tenant of the row `p`; 0 without postings. */
export function postedFor(sql: Sql | Tx, subject_id: Fragment, kind: string): Fragment {
  return sql`
    select coalesce(sum(${changeOfAvailable(sql)}), 0) as posted, min(t.currency) as currency from ledger_transfers t
    where t.tenant_id = p.tenant_id and t.subject_id = ${subject_id} and t.kind = ${kind}`
}

/** The change that the transfer `t` made to the balance of `available`. */
function changeOfAvailable(sql: Sql | Tx): Fragment {
  return sql`
    case 'available' when t.credit_account then t.amount_minor when t.debit_account then -t.amount_minor else 0 end`
}

/** The root resource to which the jobs and events of `resource` belong. */
export function rootResourceOf(
  sql: Sql | Tx,
  resources: AuditScope['resources'],
  resource: Fragment,
): Fragment {
  const parts = resources
    .filter((each) => each.root !== each.resource)
    .map((part) => sql`when ${resource} = ${part.resource} then ${part.root}::text`)
  return sql`case when false then null ${parts} else ${resource} end`
}

/**
 * Each reference points to an existing row of the same tenant and of the resource that the reference names. Tables on
 * the hot path have no foreign keys, which would cost a tenth of the throughput. Instead, their statements take the
 * tenant from the row that they lock, and this check verifies the result. Idempotency keys have their own check. Within
 * a period the check covers jobs that were created or finished in it, with their attempts. Only a full audit covers
 * attempts without a job, and notifications in the history.
 */
export function tenants(sql: Sql | Tx, { resources }: AuditScope, { since, until }: Limits): Fragment {
  const unbounded = since === null || until === null
  const resource_names = sql`${resources.map(({ resource }) => resource)}::text[]`
  const postedFor = resources.flatMap(({ resource, transfer_kinds }) =>
    transfer_kinds.length === 0
      ? []
      : [sql`when t.kind = any(${[...transfer_kinds]}::text[]) then ${resource}::text`],
  )
  const isInPeriod = (at: Fragment) => arrivedWithin(sql, at, { since, until })
  const jobs_in_period = sql`(
    select tenant_id, id, name, resource_id, finished_at from jobs
    where finished_at is null and ${isInPeriod(sql`created_at`)}
    union all
    select tenant_id, id, name, resource_id, finished_at from jobs where ${isInPeriod(sql`finished_at`)}
    union all
    select tenant_id, id, name, resource_id, finished_at from job_history where ${isInPeriod(sql`finished_at`)})`
  const attempts = sql`(
    select a.tenant_id, a.job_id
    from (select tenant_id, job_id from job_attempts union all select tenant_id, job_id from job_attempt_history) a
    where not exists (select from all_jobs j where j.id = a.job_id and j.tenant_id = a.tenant_id))`
  const attempts_in_period = sql`(
    select a.tenant_id, a.job_id from ${jobs_in_period} j
    cross join lateral (
      select tenant_id, job_id from job_attempts where job_id = j.id
      union all
      select tenant_id, job_id from job_attempt_history where job_id = j.id and finished_at = j.finished_at
      offset 0
    ) a
    where a.tenant_id <> j.tenant_id)`
  return sql`
    select 'a row references a missing row of its tenant' as problem, p.tenant_id, ${noResource(sql)}, p.at::text as id,
      p.what, ${noFigures(sql)}
    from (
      select 'job_attempts' as what, a.tenant_id, a.job_id as at from ${unbounded ? attempts : attempts_in_period} a
      union all
      select case when s.resource <> all(${resource_names})
          then s.what || ' of a ' || s.resource || ', an unknown resource' else s.what end,
        s.tenant_id, s.at
      from (
        select 'jobs' as what, ${rootResourceOf(sql, resources, sql`split_part(j.name, '.', 1)`)} as resource,
          j.tenant_id,
          j.resource_id as at
        from ${unbounded ? sql`all_jobs` : jobs_in_period} j
        where j.resource_id is not null
        union all
        select 'events', ${rootResourceOf(sql, resources, sql`split_part(e.type, '.', 1)`)}, e.tenant_id, e.subject_id
        from events e
        where ${isInPeriod(sql`e.created_at`)}
        union all
        select 'notifications', n.resource, n.tenant_id, n.resource_id
        from ${unbounded ? sql`all_notifications` : sql`notifications`} n
        where ${isInPeriod(sql`n.received_at`)} and n.resource_id is not null
        union all
        select 'drifts', d.subject, d.tenant_id, d.subject_id from drifts d
        where ${isInPeriod(sql`d.created_at`)} and d.state <> 'orphan'
        union all
        select 'ledger_transfers of kind ' || t.kind, case when false then null ${postedFor} end, t.tenant_id,
          t.subject_id
        from ledger_transfers t
        where ${isInPeriod(sql`t.created_at`)} and t.kind <> 'correction'
      ) s
      where s.resource <> all(${resource_names})
        or not ${rowExists(sql, resources, sql`s.resource`, sql`s.tenant_id`, sql`s.at`)}
    ) p`
}

/**
 * Whether the row with this id exists. `resource` null: of any resource. A row of an unknown resource counts as
 * missing.
 */
function rowExists(
  sql: Sql | Tx,
  resources: AuditScope['resources'],
  resource: Fragment,
  tenant_id: Fragment,
  id: Fragment,
): Fragment {
  const rows = resources.map(
    (each) => sql`
      select from ${sql(each.table)} r
      where coalesce(${resource}, ${each.resource}) = ${each.resource} and r.tenant_id = ${tenant_id}
        and r.id = ${id}`,
  )
  return sql`exists (${unionAll(sql, rows)})`
}

/** Whether a row was created in the audited period. */
export function arrivedWithin(
  sql: Sql | Tx,
  at: Fragment,
  { since, until }: Pick<Limits, 'since' | 'until'>,
): Fragment {
  const from = since === null ? sql`true` : sql`${at} >= ${since}`
  const to = until === null ? sql`true` : sql`${at} < ${until}`
  return sql`${from} and ${to}`
}

/** The row of each stored idempotency key exists, and so does its job, if the key has one. */
export function keys(sql: Sql | Tx, { resources }: AuditScope, limits: Limits): Fragment {
  const resource_names = sql`${resources.map(({ resource }) => resource)}::text[]`
  return sql`
    select 'an idempotency key has no row or no job' as problem, k.tenant_id, ${noResource(sql)},
      k.resource_id::text as id,
      k.scope || ' ' || k.key || case when k.resource <> all(${resource_names}) then ', a ' || k.resource
        else '' end as what,
      ${noFigures(sql)}
    from idempotency_keys k
    where ${arrivedWithin(sql, sql`k.created_at`, limits)} and (
      not ${rowExists(sql, resources, sql`k.resource`, sql`k.tenant_id`, sql`k.resource_id`)}
      or (k.job_id is not null and k.created_at > now() - interval '30 days'
        and not exists (select from all_jobs j where j.id = k.job_id and j.tenant_id = k.tenant_id)))`
}

// The invariants as SQL: each check selects the rows that contradict it, so none when the invariant holds.
import { unionAll, type Fragment, type Sql, type Tx } from '#core/db.ts'

/** A contradiction and where it is. `off_by` is found minus expected. */
export type Problem = {
  /** The name of the check, as in `index.ts`. */
  check: string
  problem: string
  tenant_id: string | null
  /** The row that it belongs to, if any: the noun and the id of what is filed under no other row. */
  subject: string | null
  subject_id: string | null
  /** The row at fault, or what it points at. */
  id: string | null
  /** The row's state, kind or account. */
  what: string | null
  expected: number | null
  found: number | null
  off_by: number | null
  /** Of amounts, which are in its smallest unit; null where the numbers count something else. */
  currency: string | null
}

/** A check selects the fields of `Problem` without `check`, in that order. */
type Check = (sql: Sql | Tx, scope: AuditScope, limits: Limits) => Fragment

/** By name. */
export type Checks = Readonly<Record<string, Check>>

/** What an audit covers: sources of rows, to be used after `from` with an alias. */
export type AuditScope = {
  /** The rows of a noun that is no part of another. */
  rowsOf: (resource: string) => Fragment
  /** The jobs and transfers of these rows and their parts, or all of them. */
  jobs: Fragment
  ledger_transfers: Fragment
  /** For each noun a source that includes its rows under way. */
  under_way: ReadonlyMap<string, Fragment>
  /** The tenants that are audited where a check is by tenant: a condition on `tenant_id`. */
  tenant_condition: Fragment
  /**
   * Every noun that has rows, under which noun's rows they are filed and by which column, the columns by which a
   * provider knows them, which of them reserve their amount, and the kinds of transfers that are theirs.
   */
  resources: readonly {
    resource: string
    table: string
    root: string
    filed_by: string
    provider?: string
    reference?: string
    reserves?: (sql: Sql | Tx) => Fragment
    transfer_kinds: readonly string[]
  }[]
}

export type Limits = {
  /** Open jobs that are due or whose lease has lapsed for longer than this are stuck. */
  stuck_after_s: number
  /** Only rows that arrived in this time, ISO 8601; null: no limit. Applies only to what is of no row in particular. */
  since: string | null
  until: string | null
}

/** Each running balance follows from the one before it. */
export function transfers(sql: Sql | Tx, { ledger_transfers, resources }: AuditScope): Fragment {
  const rows = resources.map(
    ({ table, root, filed_by }) => sql`
      select ${root}::text as subject, ${sql(`r.${filed_by}`)} as subject_id from ${sql(table)} r
      where r.tenant_id = t.tenant_id and r.id = t.subject_id`,
  )
  return sql`
    select 'a running balance does not follow from the one before it' as problem, t.tenant_id, of.subject,
      of.subject_id, t.id::text as id, t.kind || ' ' || t.currency as what, t.expected,
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
      -- Only of what is violated it is asked whose it is.
      offset 0
    ) t
    left join lateral (${unionAll(sql, rows)}) of on true`
}

/** The subject of a problem that belongs to no row in particular, or is looked for in every audit. */
export function noResource(sql: Sql | Tx): Fragment {
  return sql`null::text as subject, null::uuid as subject_id`
}

/** The numbers of a problem that has none. */
export function noFigures(sql: Sql | Tx): Fragment {
  return sql`null::bigint as expected, null::bigint as found, null::bigint as off_by, null::text as currency`
}

/** Each balance is the sum of its transfers, and what is reserved is the sum of what asks for it. */
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
  const no_reservations = sql`select null::uuid as tenant_id, null::text as currency, 0::bigint as amount_minor where false`
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
      ('an account counts other transfers than it has', false, coalesce(t.transfers, 0), coalesce(a.last_seq, 0)),
      ('an account reserves another amount than is asked for', true, coalesce(r.reserved, 0),
        coalesce(a.reserved_minor, 0))
    ) as finding(problem, is_money, expected, found)
    where finding.found <> finding.expected`
}

/** The sum that was posted to `available` for a subject of the tenant of the row `p`; 0 if nothing was. */
export function postedFor(sql: Sql | Tx, subject_id: Fragment, kind: string): Fragment {
  return sql`
    select coalesce(sum(${changeOfAvailable(sql)}), 0) as posted, min(t.currency) as currency from ledger_transfers t
    where t.tenant_id = p.tenant_id and t.subject_id = ${subject_id} and t.kind = ${kind}`
}

/** By how much the transfer `t` changed the balance of `available`. */
function changeOfAvailable(sql: Sql | Tx): Fragment {
  return sql`
    case 'available' when t.credit_account then t.amount_minor when t.debit_account then -t.amount_minor else 0 end`
}

/** The noun under whose rows jobs and events of `resource` are filed. */
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

/** The smallest id that could be created at that time. */
function minIdAt(time: string): string {
  const hex = Math.max(0, Date.parse(time)).toString(16).padStart(12, '0')
  return `${hex.slice(0, 8)}-${hex.slice(8)}-0000-0000-000000000000`
}

/**
 * Rows point at rows of their own tenant, and of the noun that they name. The tables that the hottest statements write
 * have no foreign keys, which would cost a tenth: those statements take the tenant from the row that they lock, and this
 * check makes sure that they did. Idempotency keys have their own check. For a limited time it covers rows by the time in their ids;
 * notifications have no time in theirs, so their ids are only covered by an audit of everything.
 */
export function tenants(sql: Sql | Tx, { resources }: AuditScope, { since, until }: Limits): Fragment {
  const unbounded = since === null || until === null
  const isInIds = (id: Fragment) =>
    unbounded ? sql`true` : sql`${id} >= ${minIdAt(since)} and ${id} < ${minIdAt(until)}`
  const resource_names = sql`${resources.map(({ resource }) => resource)}::text[]`
  const postedFor = resources.flatMap(({ resource, transfer_kinds }) =>
    transfer_kinds.length === 0
      ? []
      : [sql`when t.kind = any(${[...transfer_kinds]}::text[]) then ${resource}::text`],
  )
  const isInPeriod = (at: Fragment) => arrivedWithin(sql, at, { since, until })
  return sql`
    select 'a row points at nothing of its tenant' as problem, p.tenant_id, ${noResource(sql)}, p.at::text as id,
      p.what, ${noFigures(sql)}
    from (
      select 'job_attempts' as what, a.tenant_id, a.job_id as at
      from (select tenant_id, job_id from job_attempts union all select tenant_id, job_id from job_attempt_history) a
      where ${isInIds(sql`a.job_id`)}
        and not exists (select from all_jobs j where j.id = a.job_id and j.tenant_id = a.tenant_id)
      union all
      select case when s.resource <> all(${resource_names})
          then s.what || ' of a ' || s.resource || ', which is not known here' else s.what end,
        s.tenant_id, s.at
      from (
        select 'jobs' as what, ${rootResourceOf(sql, resources, sql`split_part(j.name, '.', 1)`)} as resource, j.tenant_id,
          j.subject_id as at
        from all_jobs j
        where ${isInIds(sql`j.id`)} and j.subject_id is not null
        union all
        select 'events', ${rootResourceOf(sql, resources, sql`split_part(e.type, '.', 1)`)}, e.tenant_id, e.subject_id
        from events e
        where ${isInPeriod(sql`e.created_at`)}
        union all
        select 'notifications', n.subject, n.tenant_id, n.subject_id
        from ${unbounded ? sql`all_notifications` : sql`notifications`} n
        where ${isInPeriod(sql`n.received_at`)} and n.subject_id is not null
        union all
        select 'drifts', d.subject, d.tenant_id, d.subject_id from drifts d where ${isInPeriod(sql`d.created_at`)}
        union all
        select 'ledger_transfers of kind ' || t.kind, case when false then null ${postedFor} end, t.tenant_id,
          t.subject_id
        from ledger_transfers t
        where ${isInPeriod(sql`t.created_at`)} and t.kind <> 'correction'
      ) s
      where s.resource <> all(${resource_names}) or not ${rowExists(sql, resources, sql`s.resource`, sql`s.tenant_id`, sql`s.at`)}
    ) p`
}

/** Whether the row of this id exists; `resource` null: for any noun. The row of an unknown noun counts as missing. */
function rowExists(
  sql: Sql | Tx,
  resources: AuditScope['resources'],
  resource: Fragment,
  tenant_id: Fragment,
  id: Fragment,
): Fragment {
  const rows = resources.map(
    (subject) => sql`
      select from ${sql(subject.table)} r
      where coalesce(${resource}, ${subject.resource}) = ${subject.resource} and r.tenant_id = ${tenant_id} and r.id = ${id}`,
  )
  return sql`exists (${unionAll(sql, rows)})`
}

/** Whether a row arrived in the audited time. */
export function arrivedWithin(
  sql: Sql | Tx,
  at: Fragment,
  { since, until }: Pick<Limits, 'since' | 'until'>,
): Fragment {
  const from = since === null ? sql`true` : sql`${at} >= ${since}`
  const to = until === null ? sql`true` : sql`${at} < ${until}`
  return sql`${from} and ${to}`
}

/** An idempotency key protects a row that exists, and a job that exists for as long as the key is kept. */
export function keys(sql: Sql | Tx, { resources }: AuditScope, limits: Limits): Fragment {
  const resource_names = sql`${resources.map(({ resource }) => resource)}::text[]`
  return sql`
    select 'an idempotency key protects nothing' as problem, k.tenant_id, ${noResource(sql)},
      k.resource_id::text as id,
      k.scope || ' ' || k.key || case when k.resource <> all(${resource_names}) then ', a ' || k.resource else '' end as what,
      ${noFigures(sql)}
    from idempotency_keys k
    where ${arrivedWithin(sql, sql`k.created_at`, limits)} and (
      not ${rowExists(sql, resources, sql`k.resource`, sql`k.tenant_id`, sql`k.resource_id`)}
      or (k.job_id is not null and k.created_at > now() - interval '30 days'
        and not exists (select from all_jobs j where j.id = k.job_id and j.tenant_id = k.tenant_id)))`
}

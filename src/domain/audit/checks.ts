// The invariants as statements: each answers the rows that contradict it, so nothing when all is well.
import type { Fragment, Sql, Tx } from '#core/db.ts'
import { notifications } from './notifications.ts'
import type { Scope } from './scope.ts'

/** Something that does not hold, and where. Amounts in the smallest unit; `off_by` is found minus expected. */
export type Problem = {
  check: CheckName
  problem: string
  tenant_id: string | null
  /** The payment that it belongs to, where it belongs to one. */
  payment_id: string | null
  /** The row at fault, or what it points at. */
  id: string | null
  /** Its state, kind or account. */
  what: string | null
  expected: number | null
  found: number | null
  off_by: number | null
}

/** Every one selects what `Problem` has, in its order, without `check`. */
type Check = (sql: Sql | Tx, scope: Scope, limits: Limits) => Fragment

export type Limits = {
  /** Open jobs that are due or whose lease has lapsed for longer than this are stuck. */
  stuck_after_s: number
  /** What arrived in this time, ISO 8601; null: ever. Only for what belongs to no payment. */
  since: string | null
  until: string | null
}

/** Checks that look at payments and what belongs to them: possible for a part of the payments too. */
export const CHECKS_OF_PAYMENTS = { transfers, payments, refunds, calls, events } satisfies Record<
  string,
  Check
>

/** Checks that look at what arrived in a time: possible for a part of the time too. */
export const CHECKS_OF_A_TIME = { keys, tenants } satisfies Record<string, Check>

/** Checks of what is open, which is never much, or of few rows. */
export const CHECKS_OF_WHAT_IS_OPEN = { jobs, notifications } satisfies Record<string, Check>

/** Checks that are made a part at a time, where much is open and accounts are many. */
export const CHECKS_IN_PARTS = { balances, in_flight } satisfies Record<string, Check>

export const CHECKS = {
  ...CHECKS_OF_PAYMENTS,
  ...CHECKS_IN_PARTS,
  ...CHECKS_OF_WHAT_IS_OPEN,
  ...CHECKS_OF_A_TIME,
}

export type CheckName = keyof typeof CHECKS

/** Each running balance follows from the one before it. */
function transfers(sql: Sql | Tx, { ledger_transfers }: Scope): Fragment {
  return sql`
    select 'a running balance does not follow from the one before it' as problem, t.tenant_id, null::uuid as payment_id,
      t.id::text as id, t.kind || ' ' || t.currency as what, follows.expected, t.balance_after_minor as found,
      t.balance_after_minor - follows.expected as off_by
    from ${ledger_transfers} t
    left join lateral (
      select before.balance_after_minor from ledger_transfers before
      where before.tenant_id = t.tenant_id and before.currency = t.currency and before.seq = t.seq - 1 offset 0
    ) before on true
    cross join lateral (
      select case when t.seq = 1 then 0 else before.balance_after_minor end + ${toAvailable(sql)} as expected
    ) follows
    where t.seq is not null and follows.expected is distinct from t.balance_after_minor`
}

/** Each balance is the sum of its transfers, and nothing is reserved that nobody asks for. */
function balances(sql: Sql | Tx, { whose }: Scope): Fragment {
  return sql`
    select told.problem, coalesce(a.tenant_id, t.tenant_id) as tenant_id, null::uuid as payment_id, null::text as id,
      coalesce(a.currency || ' ' || a.name, t.currency || ' ' || t.account) as what, told.expected::bigint as expected,
      told.found::bigint as found, (told.found - told.expected)::bigint as off_by
    from (select * from ledger_accounts where ${whose}) a
    full join (
      select tenant_id, currency, leg.account, sum(leg.delta) as balance, count(*) as transfers from ledger_transfers
      cross join lateral (values (debit_account, -amount_minor), (credit_account, amount_minor)) leg(account, delta)
      where ${whose} group by 1, 2, 3
    ) t on t.tenant_id = a.tenant_id and t.currency = a.currency and t.account = a.name
    cross join lateral (values
      ('a balance is not the sum of its transfers', coalesce(t.balance, 0), coalesce(a.balance_minor, 0)),
      ('an account counts other transfers than it has', coalesce(t.transfers, 0), coalesce(a.last_seq, 0)),
      ('an account reserves what nobody asks for', 0, coalesce(a.reserved_minor, 0))
    ) as told(problem, expected, found)
    where told.found <> told.expected`
}

/** Captured within authorized, refunds within captured and as their rows say, and what was captured is posted. */
function payments(sql: Sql | Tx, { payments }: Scope): Fragment {
  return sql`
    select told.problem, p.tenant_id, p.id as payment_id, p.id::text as id, p.status as what, told.expected::bigint as expected,
      told.found::bigint as found, (told.found - told.expected)::bigint as off_by
    from ${payments} p
    cross join lateral (
      select coalesce(sum(r.amount_minor) filter (where r.status = 'succeeded'), 0) as refunded,
        coalesce(sum(r.amount_minor) filter (where r.status in ('pending', 'succeeded')), 0) as reserved
      from refunds r where r.tenant_id = p.tenant_id and r.payment_id = p.id
    ) r
    cross join lateral (${postedFor(sql, sql`p.id`, 'capture')}) c
    cross join lateral (values
      ('more was captured than authorized', amount_captured_minor > amount_minor, amount_minor, amount_captured_minor),
      ('more was refunded than captured', amount_refund_reserved_minor > amount_captured_minor, amount_captured_minor, amount_refund_reserved_minor),
      ('the refunded amount is not that of its refunds', amount_refunded_minor <> r.refunded, r.refunded, amount_refunded_minor),
      ('the reserved amount is not that of its refunds', amount_refund_reserved_minor <> r.reserved, r.reserved, amount_refund_reserved_minor),
      ('what was captured is not what was posted', amount_captured_minor <> c.posted, amount_captured_minor, c.posted),
      ('what was captured is posted in another currency', c.currency <> p.currency, null, null)
    ) as told(problem, wrong, expected, found)
    where told.wrong`
}

/** What was refunded is posted, and given back when the refund failed after all. */
function refunds(sql: Sql | Tx, { payments }: Scope): Fragment {
  return sql`
    select 'what was refunded is not what was posted' as problem, r.tenant_id, r.payment_id, r.id::text as id, r.status as what,
      r.expected, (taken.posted + given.posted)::bigint as found, (taken.posted + given.posted - r.expected)::bigint as off_by
    from ${payments} p
    cross join lateral (
      select r.*, case when r.status = 'succeeded' then -r.amount_minor else 0 end as expected
      from refunds r where r.tenant_id = p.tenant_id and r.payment_id = p.id offset 0
    ) r
    cross join lateral (${postedFor(sql, sql`r.id`, 'refund')}) taken
    cross join lateral (${postedFor(sql, sql`r.id`, 'refund_failed')}) given
    where taken.posted + given.posted <> r.expected or taken.posted not in (0, -r.amount_minor)
      or (taken.posted = 0 and given.posted <> 0) or taken.currency <> r.currency or given.currency <> r.currency`
}

/** What was posted to `available` for a subject of the payment `p`; 0 where nothing was. */
function postedFor(sql: Sql | Tx, subject_id: Fragment, kind: string): Fragment {
  return sql`
    select coalesce(sum(${toAvailable(sql)}), 0) as posted, min(t.currency) as currency from ledger_transfers t
    where t.tenant_id = p.tenant_id and t.subject_id = ${subject_id} and t.kind = ${kind}`
}

/** By how much the transfer `t` changed the balance of `available`. */
function toAvailable(sql: Sql | Tx): Fragment {
  return sql`case 'available' when t.credit_account then t.amount_minor when t.debit_account then -t.amount_minor else 0 end`
}

/** What succeeded has sent its provider call. */
function calls(sql: Sql | Tx, { jobs }: Scope): Fragment {
  return sql`
    select 'a job succeeded without its provider call' as problem, j.tenant_id, j.subject_id as payment_id, j.id::text as id,
      c.operation as what, null::bigint as expected, null::bigint as found, null::bigint as off_by
    from ${jobs} j join all_provider_calls c on c.tenant_id = j.tenant_id and c.job_id = j.id
    where j.state = 'succeeded' and c.outcome = 'done' and c.first_sent_at is null`
}

/** An event exists if and only if its state change does. */
function events(sql: Sql | Tx, { payments }: Scope): Fragment {
  return sql`
    select case when e.type is not null then 'an event is missing or was written twice'
        when t.type like 'refund.%' then 'an event tells of a refund that is not there'
        else 'an event tells what did not happen' end as problem,
      p.tenant_id, p.id as payment_id, coalesce(e.id, t.id) as id, coalesce(e.type, t.type) as what,
      (e.type is not null)::integer::bigint as expected, coalesce(t.times, 0) as found,
      coalesce(t.times, 0) - (e.type is not null)::integer as off_by
    from ${payments} p
    cross join lateral (
      select * from (
        select e.type, case when e.type like 'refund.%' then e.data ->> 'id' else p.id::text end as id, count(*) as times
        from events e where e.tenant_id = p.tenant_id and e.subject_id = p.id
          -- So that the partitions from before are not asked.
          and e.created_at >= p.created_at - interval '1 hour'
        group by 1, 2
      ) t full join (
        select 'payment.created' as type, p.id::text as id
        union all
        select 'payment.' || p.status, p.id::text where p.status in ('captured', 'canceled', 'failed')
        union all
        select told.type, r.id::text from refunds r cross join lateral (
          select 'refund.created' as type union all select 'refund.' || r.status where r.status <> 'pending') told
        where r.tenant_id = p.tenant_id and r.payment_id = p.id
      ) e on e.type = t.type and e.id = t.id
    ) as told(t_type, t_id, times, e_type, e_id)
    cross join lateral (select t_type as type, t_id as id, times) t
    cross join lateral (select e_type as type, e_id as id) e
    -- Of a payment that is older than the events that are kept, some are gone.
    where p.created_at >= (select min(coalesce(kept.from_time, '-infinity')) from partitions kept
      where kept.parent = 'events' and not kept.is_default)
      and case when e.type is not null then coalesce(t.times, 0) <> 1
      else t.type in ('payment.captured', 'payment.canceled', 'payment.failed') or (t.type like 'refund.%' and not exists (
        select from refunds r where r.tenant_id = p.tenant_id and r.payment_id = p.id and r.id::text = t.id)) end`
}

/** Every open job is due at some time or held by somebody; none waits for ever. */
function jobs(sql: Sql | Tx, _scope: Scope, { stuck_after_s }: Limits): Fragment {
  const long_ago = sql`now() - ${stuck_after_s} * interval '1 second'`
  return sql`
    select 'a job is due and nobody takes it' as problem, j.tenant_id, null::uuid as payment_id, j.id::text as id,
      j.name || ' ' || j.state || ' since ' || coalesce(j.lease_until, j.run_at) as what, null::bigint as expected,
      null::bigint as found, null::bigint as off_by
    from jobs j
    where j.finished_at is null and case when j.state = 'running' then j.lease_until else j.run_at end < ${long_ago}
      and not exists (
        select from pauses p where (p.queue is null or p.queue = j.queue) and (p.tenant_id is null or p.tenant_id = j.tenant_id))`
}

/** What is on its way has a job that works on it; a refund may also wait for the processor, which was asked. */
function in_flight(sql: Sql | Tx, { open_payments, pending_refunds }: Scope): Fragment {
  return sql`
    select 'a payment is under way and nothing works on it' as problem, p.tenant_id, p.id as payment_id, p.id::text as id,
      p.status || ' since ' || p.updated_at as what, null::bigint as expected, null::bigint as found, null::bigint as off_by
    from ${open_payments} p
    where p.open and p.status in ('pending', 'capturing', 'canceling') and not exists (
      select from jobs j where j.tenant_id = p.tenant_id and j.subject_id = p.id and j.finished_at is null)
    union all
    select 'a refund is under way and nothing works on it', r.tenant_id, r.payment_id, r.id::text,
      r.status || ' since ' || r.updated_at, null, null, null
    from ${pending_refunds} r
    where r.status = 'pending' and not r.imported and not exists (
      select from all_jobs j where j.tenant_id = r.tenant_id and j.subject_id = r.payment_id and j.payload ->> 'refund_id' = r.id::text
        and (j.finished_at is null or j.state = 'succeeded'))`
}

/** The least id that is made at that time. */
function idAt(time: string): string {
  const hex = Math.max(0, Date.parse(time)).toString(16).padStart(12, '0')
  return `${hex.slice(0, 8)}-${hex.slice(8)}-0000-0000-000000000000`
}

/**
 * Rows point at rows of their own tenant. What the hottest steps write has no foreign keys, which would cost them a tenth: the
 * steps take the tenant from the row that they have locked, and this looks whether they did. Keys have a check of their own.
 * Of a time: rows whose ids are of it, so notifications, whose ids are not of any, are left to the audit of everything.
 */
function tenants(sql: Sql | Tx, _scope: Scope, { since, until }: Limits): Fragment {
  const ever = since === null || until === null
  const made = (id: Fragment) => (ever ? sql`true` : sql`${id} >= ${idAt(since)} and ${id} < ${idAt(until)}`)
  const written = (at: Fragment) => arrived(sql, at, { since, until })
  return sql`
    select 'a row points at nothing of its tenant' as problem, p.tenant_id, null::uuid as payment_id, p.at::text as id, p.what,
      null::bigint as expected, null::bigint as found, null::bigint as off_by
    from (
      select 'job_attempts' as what, a.tenant_id, a.job_id as at
      from (select tenant_id, job_id from job_attempts union all select tenant_id, job_id from job_attempt_history) a
      where ${made(sql`a.job_id`)} and not exists (select from all_jobs j where j.id = a.job_id and j.tenant_id = a.tenant_id)
      union all
      select s.what, s.tenant_id, s.at from (
        select 'jobs' as what, j.tenant_id, j.subject_id as at from all_jobs j
        where ${made(sql`j.id`)} and j.subject_id is not null
        union all
        select 'events', e.tenant_id, e.subject_id from events e where ${written(sql`e.created_at`)}
        union all
        select 'ledger_transfers', t.tenant_id, t.subject_id from ledger_transfers t
        where ${written(sql`t.created_at`)} and t.kind in ('capture', 'refund', 'refund_failed')
      ) s
      where not exists (select from payments p where p.tenant_id = s.tenant_id and p.id = s.at)
        and not exists (select from refunds r where r.tenant_id = s.tenant_id and r.id = s.at)
        and not exists (select from customers c where c.tenant_id = s.tenant_id and c.id = s.at)
    ) p`
}

/** Whether a row came at a time that is looked at. */
function arrived(sql: Sql | Tx, at: Fragment, { since, until }: Pick<Limits, 'since' | 'until'>): Fragment {
  return sql`${since === null ? sql`true` : sql`${at} >= ${since}`} and ${until === null ? sql`true` : sql`${at} < ${until}`}`
}

/** An idempotency key protects something that exists: its job as long as the key is remembered. */
function keys(sql: Sql | Tx, _scope: Scope, limits: Limits): Fragment {
  return sql`
    select 'an idempotency key protects nothing' as problem, k.tenant_id, null::uuid as payment_id, k.resource_id::text as id,
      k.scope || ' ' || k.key as what, null::bigint as expected, null::bigint as found, null::bigint as off_by
    from idempotency_keys k
    where ${arrived(sql, sql`k.created_at`, limits)} and (
      not case k.resource
        when 'payment' then exists (select from payments p where p.tenant_id = k.tenant_id and p.id = k.resource_id)
        when 'refund' then exists (select from refunds r where r.tenant_id = k.tenant_id and r.id = k.resource_id)
        when 'customer' then exists (select from customers c where c.tenant_id = k.tenant_id and c.id = k.resource_id)
        else true end
      or (k.job_id is not null and k.created_at > now() - interval '30 days'
        and not exists (select from all_jobs j where j.id = k.job_id and j.tenant_id = k.tenant_id)))`
}

// Old rows: canceled payments and finished jobs of a tenant that sends no requests.
import type postgres from 'postgres'

const TENANT = '00000000-0000-7000-8000-000000000001'
const BATCH = 50_000

/** Inserts this number of rows, a third of them payments, the others finished jobs, and analyzes the tables. */
export async function insertHistory(sql: postgres.Sql, rows: number): Promise<void> {
  await sql`insert into tenants (id, slug, name) values (${TENANT}, 'history', 'History')`
  // Workers create partitions ahead. The jobs are in these, because each new partition would search the default one.
  for (let made: unknown = ''; made !== null;)
    [{ made }] = await sql<[{ made: string | null }]>`select make_next_partition() as made`
  const payments = Math.floor(rows / 3)
  for (let first = 1; first <= rows; first += BATCH) {
    const last = Math.min(first + BATCH - 1, rows)
    if (first <= payments) await insertPayments(sql, first, Math.min(last, payments))
    if (last > payments) await insertJobs(sql, Math.max(first, payments + 1), last)
  }
  await sql`vacuum analyze payments`
  await sql`vacuum analyze job_history`
}

async function insertPayments(sql: postgres.Sql, first: number, last: number): Promise<void> {
  await sql`
    insert into payments (tenant_id, id, idempotency_key, status, amount_minor, currency, method, processor,
      processor_reference, cancellation_reason, canceled_at, created_at, updated_at)
    select ${TENANT}, gen_random_uuid(), 'history-' || n, 'canceled', 1000, 'USD', 'card', 'history',
      'history-' || n, 'requested_by_customer', at, at, at
    from generate_series(${first}::bigint, ${last}::bigint) n
    cross join lateral (select now() - interval '60 days' + n * interval '1 second') time(at)`
}

async function insertJobs(sql: postgres.Sql, first: number, last: number): Promise<void> {
  await sql`
    insert into job_history (tenant_id, id, queue, name, resource_id, payload, state, run_at, attempt, max_attempts,
      started_at, finished_at, worker, outcome, operation, generation, key, request, priority, failures, in_doubt,
      created_at)
    select ${TENANT}, gen_random_uuid(), 'payments', 'payment.cancel', gen_random_uuid(), '{}', 'succeeded', at, 1,
      25, at, at, 'history', 'done', 'cancel', 1, 'history-' || n, '{"amount_minor": 1000}',
      0, 0, false, at
    from generate_series(${first}::bigint, ${last}::bigint) n
    cross join lateral (select date_trunc('week', now()) + (7 + n % 28) * interval '1 day') time(at)`
}

/** The number of these rows. `unfilled`: those that lack what the test's migrations fill in. */
export async function countHistory(sql: postgres.Sql): Promise<{ rows: number; unfilled: number }> {
  const [count] = await sql<{ rows: number; unfilled: number }[]>`
    select sum(rows)::integer as rows, sum(unfilled)::integer as unfilled from (
      select count(*) as rows, count(*) filter (where token is null) as unfilled from payments where tenant_id = ${TENANT}
      union all
      select count(*), count(*) filter (where note is null) from job_history where tenant_id = ${TENANT}) counted`
  return count!
}

/** Removes the rows: the verdict reads the rows of the load only. */
export async function removeHistory(sql: postgres.Sql): Promise<void> {
  await sql`delete from payments where tenant_id = ${TENANT}`
  await sql`delete from job_history where tenant_id = ${TENANT}`
}

// Fills a database with the data of 90 days: captured payments with their jobs, events, postings and keys.
import postgres from 'postgres'

const WEEKS = 13
/** Payments per statement. */
const PAYMENTS_PER_STATEMENT = 250_000
/** Percent of the jobs that finished within the last hour and are not in the history yet. */
const RECENT_PERCENT = 1

/** Writes `finished` jobs and half as many captured payments, for all tenants in rotation. */
export async function fill(database_url: string, finished: number): Promise<void> {
  const sql = postgres(database_url, { max: 1, onnotice: () => {} })
  try {
    await sql.unsafe(`set timezone = 'UTC'; set synchronous_commit = off`)
    await createPastPartitions(sql)
    await sql.unsafe(`
      create temporary table tenant as select id, row_number() over (order by slug) - 1 as number from tenants where slug like 'bench-%'`)
    const payments = Math.ceil(finished / 2)
    for (let first = 0; first < payments; first += PAYMENTS_PER_STATEMENT)
      await writePayments(sql, {
        first,
        last: Math.min(first + PAYMENTS_PER_STATEMENT, payments) - 1,
        payments,
      })
    await sql.unsafe('vacuum (analyze)')
  } finally {
    await sql.end()
  }
}

async function createPastPartitions(sql: postgres.Sql): Promise<void> {
  await sql.unsafe(`
    do $$
    declare
      each text;
      monday timestamptz;
    begin
      foreach each in array array['sequenced_events', 'feed_entries', 'job_history', 'job_attempt_history', 'notification_history'] loop
        execute format('drop table %I', replace(each, 'sequenced_', '') || '_before');
        for monday in select generate_series(date_trunc('week', now()) - ${WEEKS} * interval '7 days', date_trunc('week', now()), interval '7 days') loop
          execute format('create table %I partition of %I for values from (%L) to (%L)', each || to_char(monday, '_YYYYMMDD'), each, monday,
            monday + interval '7 days');
        end loop;
      end loop;
    end $$`)
}

/** Ids are ordered by time, like the product's ids. */
async function writePayments(
  sql: postgres.Sql,
  { first, last, payments }: { first: number; last: number; payments: number },
): Promise<void> {
  const first_recent = Math.ceil((payments * (100 - RECENT_PERCENT)) / 100)
  const id = (kind: string) =>
    `(lpad(to_hex((extract(epoch from at) * 1000)::bigint), 12, '0') || '7' || substr(md5(n || '${kind}'), 1, 3) || '8' || substr(md5(n || '${kind}'), 4, 15))::uuid`
  await sql.unsafe(`
    create temporary table fresh as
    select n, tenant.id as tenant_id, at, ${id('payment')} as id, ${id('job')} as capture_id, ${id('authorize')} as authorize_id,
      ${id('notification')} as notification_id, ${id('transfer')} as transfer_id, ${id('event')} as event_id, ${id('captured')} as captured_event_id
    from (
      select n, case when n < ${first_recent} then now() - interval '2 hours' - (${first_recent} - n) * (interval '89 days' / ${first_recent})
        else now() - (${payments} - n) * (interval '50 minutes' / ${payments - first_recent + 1}) end as at
      from generate_series(${first}, ${last}) n
    ) each join tenant on tenant.number = n % (select count(*) from tenant);
    insert into payments (tenant_id, id, idempotency_key, status, amount_minor, currency, method, amount_captured_minor, processor,
        processor_reference, authorized_at, captured_at, metadata, created_at, updated_at)
      select tenant_id, id, 'past-' || n, 'captured', 1000, 'USD', 'card', 1000, 'stripe', 'pi_past_' || n, at, at, '{"order": "A-17"}', at, at
      from fresh;
    insert into event_sequences (tenant_id, last_sequence) select id, 0 from tenant on conflict do nothing;
    insert into events (tenant_id, id, type, subject_id, data, created_at, sequenced, sequence)
      select fresh.tenant_id, written.id, written.type, fresh.id, jsonb_build_object('id', fresh.id, 'status', written.status, 'amount_minor', 1000), at, true,
        s.last_sequence + 2 * (row_number() over (partition by fresh.tenant_id, written.nth order by n)) - 2 + written.nth
      from fresh join event_sequences s using (tenant_id)
      cross join lateral (values (1, event_id, 'payment.created', 'pending'), (2, captured_event_id, 'payment.captured', 'captured')) written(nth, id, type, status);
    insert into feed_entries (tenant_id, sequence, event_id, type, created_at)
      select e.tenant_id, e.sequence, e.id, e.type, e.created_at
      from fresh join events e on e.tenant_id = fresh.tenant_id and e.id in (fresh.event_id, fresh.captured_event_id);
    update event_sequences s set last_sequence = s.last_sequence + 2 * written.payments
      from (select tenant_id, count(*) as payments from fresh group by 1) written where s.tenant_id = written.tenant_id;
    insert into ledger_accounts (tenant_id, currency, name)
      select tenant.id, 'USD', name from tenant cross join (values ('available'), ('processor_clearing')) account(name)
      on conflict do nothing;
    insert into ledger_transfers (tenant_id, id, kind, subject_id, debit_account, credit_account, currency, amount_minor, seq,
        balance_after_minor, created_at)
      select tenant_id, transfer_id, 'capture', fresh.id, 'processor_clearing', 'available', 'USD', 1000, a.last_seq + row_number() over account,
        a.balance_minor + 1000 * row_number() over account, at
      from fresh join ledger_accounts a using (tenant_id) where a.currency = 'USD' and a.name = 'available'
      window account as (partition by tenant_id order by n);
    update ledger_accounts a set balance_minor = a.balance_minor + case a.name when 'available' then 1000 else -1000 end * posted.transfers,
        last_seq = a.last_seq + posted.transfers, last_at = posted.last_at
      from (select tenant_id, count(*) as transfers, max(at) as last_at from fresh group by 1) posted
      where a.tenant_id = posted.tenant_id and a.currency = 'USD' and a.name in ('available', 'processor_clearing');
    insert into idempotency_keys (tenant_id, key, scope, fingerprint, resource, resource_id, job_id, created_at)
      select tenant_id, 'past-' || n, 'POST /v1/payments', md5(n::text), 'payment', id, authorize_id, at from fresh
      where at > now() - interval '30 days';
    create temporary table job as
      select fresh.*, j.id as job_id, j.name, j.operation from fresh
      cross join lateral (values (authorize_id, 'payment.authorize', 'authorize'), (capture_id, 'payment.capture', 'capture')) j(id, name, operation);`)
  const row = {
    job: `job_id as id, tenant_id, 'payments', name, id as resource_id, jsonb_build_object('payment_id', id), 'succeeded', 0, at,
      25, 1, 'past/1', 'done',
      at, at, at, operation, 1, job_id || ':1', at, at, jsonb_build_object('reference', 'pi_past_' || n)`,
    notification: `notification_id, 'stripe', '', 'evt_past_' || n, 'payment_intent.succeeded', 'pi_past_' || n,
      jsonb_build_object('id', 'evt_past_' || n, 'data', repeat('x', 1000)), 'applied', tenant_id, 'payment', id, at, at`,
  }
  const columns = {
    job: `id, tenant_id, queue, name, resource_id, payload, state, priority, run_at, max_attempts, attempt, worker, outcome,
      created_at, started_at, finished_at, operation, generation, key, first_sent_at, last_sent_at, request`,
    notification:
      'id, provider, account, event_id, kind, object_id, payload, state, tenant_id, resource, resource_id, received_at, applied_at',
  }
  const [old, young] = [`at < now() - interval '1 hour'`, `at >= now() - interval '1 hour'`]
  await sql.unsafe(`
    insert into job_history (${columns.job}) select ${row.job} from job where ${old};
    insert into notification_history (finished_at, ${columns.notification}) select at, ${row.notification} from fresh where ${old} and n % 5 = 0;
    insert into jobs (${columns.job}) select ${row.job} from job where ${young};
    drop table fresh, job;`)
}

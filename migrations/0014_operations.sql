-- Operations: acts that operators request and workers carry out, the processes, and the roll-ups behind the
-- dashboard.

-- One act for one job, or for all jobs that match a filter when the act begins. The dashboard inserts the first
-- columns; workers write the others.
create table operator_acts (
  id uuid primary key,
  act text not null check (act in ('retry', 'discard', 'run_now', 'resolve')),
  job_id uuid,
  filter jsonb check (jsonb_typeof(filter) = 'object' and pg_column_size(filter) <= 4096),
  actor text not null check (length(actor) between 1 and 320),
  reason text not null check (length(reason) between 1 and 1000),
  -- For `resolve`: whether the call took effect, and the provider's id of the object that it created.
  took_effect boolean,
  reference text check (length(reference) between 1 and 255),
  -- The number of matching jobs at the time of the request.
  matched integer not null check (matched >= 0),
  created_at timestamptz not null default now(),
  state text not null default 'requested' check (state in ('requested', 'running', 'done', 'canceled', 'failed')),
  -- The number of jobs that the act found when it began, and how many of them were done or refused. `more`: more jobs
  -- matched than the limit of an act.
  found integer not null default 0,
  done integer not null default 0,
  refused integer not null default 0,
  more boolean not null default false,
  error text,
  started_at timestamptz,
  updated_at timestamptz not null default clock_timestamp(),
  finished_at timestamptz,
  check (num_nonnulls(job_id, filter) = 1),
  check ((state in ('done', 'canceled', 'failed')) = (finished_at is not null)),
  constraint operator_acts_resolve check (
    (act = 'resolve') = (took_effect is not null)
    and (act <> 'resolve' or job_id is not null or reference is null)
    and (reference is null or coalesce(took_effect, false)))
);
create index operator_acts_open on operator_acts (updated_at) where finished_at is null;
create index operator_acts_listed on operator_acts (created_at, id);

-- A separate table, so that the dashboard may insert a cancellation and update nothing.
create table operator_act_cancellations (
  act_id uuid primary key references operator_acts on delete cascade,
  actor text not null check (length(actor) between 1 and 320),
  created_at timestamptz not null default now()
);

-- The jobs of an act, in the order of their ids. `at` is null until the act reaches them.
create table operator_act_items (
  act_id uuid not null references operator_acts on delete cascade,
  job_id uuid not null,
  at timestamptz,
  before text,
  -- Null if the act was refused; `refused` is the reason.
  after text,
  lookup_only boolean not null default false,
  refused text,
  primary key (act_id, job_id)
);

-- A worker carries out the proposal of an operator once another operator confirms it. A correction of the ledger names
-- its proposal as `subject_id`. Proposals are confirmed in the dashboard; they are made in the dashboard, or by a
-- command in the name of a user.
create table proposals (
  id uuid primary key,
  tenant_id uuid not null references tenants (id),
  kind text not null check (kind in ('correction', 'fail_payout')),
  payout_id uuid,
  currency text check (currency ~ '^[A-Z]{3}$'),
  -- The change that a correction makes to the balance.
  amount_minor bigint check (amount_minor <> 0 and abs(amount_minor) <= 9007199254740991),
  reason text not null check (length(reason) between 1 and 1000),
  proposed_by_id uuid not null,
  proposed_by text not null check (length(proposed_by) between 1 and 320),
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,
  decision text check (decision in ('confirmed', 'rejected', 'canceled')),
  decided_by_id uuid,
  decided_by text check (length(decided_by) between 1 and 320),
  decided_at timestamptz,
  -- Null until a worker has carried out a confirmed proposal; `refused`: why that was no longer possible.
  carried_out_at timestamptz,
  refused text,
  -- When a worker last failed to carry out the proposal, and why. A proposal that failed moves behind the others.
  failed_at timestamptz,
  error text check (length(error) between 1 and 600),
  constraint proposals_payout foreign key (tenant_id, payout_id) references payouts (tenant_id, id),
  constraint proposals_kind check
    ((kind = 'correction') = (currency is not null and amount_minor is not null and payout_id is null)
      and (kind = 'fail_payout') = (payout_id is not null and currency is null and amount_minor is null)),
  constraint proposals_decided check
    ((decision is null) = (decided_at is null) and (decision is null) = (decided_by is null)),
  constraint proposals_need_two check
    (decision is distinct from 'confirmed' or (decided_by_id is not null and decided_by_id <> proposed_by_id)),
  constraint proposals_in_time check (decision is distinct from 'confirmed' or decided_at < expires_at),
  constraint proposals_carried_out check
    ((carried_out_at is null or coalesce(decision = 'confirmed', false))
      and (refused is null or carried_out_at is not null)),
  constraint proposals_error check ((error is null) = (failed_at is null) and (error is null or carried_out_at is null))
);
create index proposals_listed on proposals (created_at, id);
create index proposals_undecided on proposals (expires_at) where decision is null;
create index proposals_confirmed on proposals (failed_at nulls first, decided_at)
  where decision = 'confirmed' and carried_out_at is null;

-- Each process reports a heartbeat every few seconds, and its end. `roles.sql` limits each process to its own
-- kind.
create table processes (
  id uuid primary key,
  name text not null check (length(name) <= 32),
  version text not null check (length(version) <= 64),
  host text not null check (length(host) <= 255),
  pid integer not null,
  queues text[] check (pg_column_size(queues) <= 1024),
  started_at timestamptz not null default now(),
  seen_at timestamptz not null default now(),
  ended_at timestamptz
);
alter table processes enable row level security;

-- Retains the last 200 rows of each name, so that no process can fill the table; rows of ended processes are deleted
-- first. Runs with the owner's rights: processes may insert rows here, but not delete them.
create function limit_processes() returns trigger language plpgsql security definer as $$
begin
  delete from processes p using (
    select id, row_number() over (partition by name order by ended_at is null desc, seen_at desc, id) as place
    from processes) ranked
  where p.id = ranked.id and ranked.place > 200;
  return null;
end $$;
create trigger processes_kept after insert on processes for each statement execute function limit_processes();

-- Counts of jobs by minute and by hour. Recurring work writes them, never a request or a job. `name`: the name of the
-- job, or '' for the whole queue.
create table job_rollups (
  -- The length of the period in seconds.
  resolution smallint not null check (resolution in (60, 3600)),
  at timestamptz not null,
  queue text not null,
  name text not null,
  -- The jobs that finished in this period.
  succeeded integer not null default 0,
  failed integer not null default 0,
  discarded integer not null default 0,
  -- Finished jobs whose provider call was declined.
  declined integer not null default 0,
  attempts integer not null default 0,
  -- The times that jobs waited and ran: a count for each bucket of domain/rollups/histograms.ts, up to the last
  -- one above 0.
  wait integer[] not null default '{}',
  run integer[] not null default '{}',
  -- Created jobs.
  arrived integer not null default 0,
  -- Open jobs: the last sample of the minute, the maximum of the hour; null without a sample.
  due integer,
  later integer,
  running integer,
  unknown integer,
  parked integer,
  refused integer,
  in_doubt integer,
  oldest_due_s integer,
  sampled_at timestamptz,
  primary key (resolution, queue, name, at)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);
create index job_rollups_at on job_rollups (resolution, at);

-- The finished jobs by tenant: a limited number of tenants for each queue; 00000000-0000-0000-0000-000000000000 stands
-- for all others.
create table tenant_rollups (
  resolution smallint not null check (resolution in (60, 3600)),
  at timestamptz not null,
  queue text not null,
  tenant_id uuid not null,
  finished integer not null,
  run_ms bigint not null,
  primary key (resolution, queue, at, tenant_id)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);
create index tenant_rollups_at on tenant_rollups (resolution, at);

-- A tenant's payments by day (UTC), counted from their events.
create table payment_days (
  tenant_id uuid not null,
  day date not null,
  currency text not null,
  kind text not null,
  count bigint not null,
  -- A sum that may exceed bigint.
  amount_minor numeric not null,
  primary key (tenant_id, day, currency, kind)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);
create index payment_days_day on payment_days (day);

-- The sequence up to which each tenant's events are counted in `payment_days`.
create table payment_cursors (
  tenant_id uuid primary key,
  sequence bigint not null,
  counted_at timestamptz not null default clock_timestamp()
) with (fillfactor = 50);

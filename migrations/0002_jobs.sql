-- The queue of record: jobs with their provider calls, their attempts, their history, and pauses.

create table jobs (
  id uuid primary key,
  tenant_id uuid not null,
  queue text not null,
  name text not null,
  resource_id uuid,
  payload jsonb not null,
  state text not null default 'ready'
    check (state in ('ready', 'running', 'succeeded', 'failed', 'unknown', 'discarded')),
  priority smallint not null default 0,
  run_at timestamptz not null default now(),
  wakeup_sent_at timestamptz,
  attempt integer not null default 0,
  max_attempts integer not null,
  lease_token uuid,
  lease_until timestamptz,
  unknown_since timestamptz,
  last_error jsonb,
  dedupe_key text,
  request_id text,
  created_at timestamptz not null default now(),
  -- `worker` and `started_at` belong to the running attempt, or to the attempt that finished the job. `outcome` is the
  -- outcome of the attempt that finished the job.
  started_at timestamptz,
  finished_at timestamptz,
  worker text,
  outcome text,
  -- The number of attempts in a row without an answer.
  failures integer not null default 0,
  -- Since when all attempts have failed; null if the last one did not fail. Neither a claim nor a success at the first
  -- attempt changes this column.
  failing_since timestamptz,
  -- The provider call. `key` is the key of the present generation. A rotation stores the previous key with the attempt
  -- that rotated.
  operation text,
  generation integer,
  key text,
  first_sent_at timestamptz,
  last_sent_at timestamptz,
  -- Fingerprints of the credentials with which the call of this generation was sent, separated by spaces.
  sent_with text,
  -- A call of an earlier attempt may have reached the provider, but its answer was not received.
  in_doubt boolean not null default false,
  -- Since when the provider has refused every attempt before the call took effect; null if the last attempt was not
  -- refused.
  refused_since timestamptz,
  -- When the provider's complete list first showed that the call had no effect. Lists that were read too early after
  -- the call was last sent do not count.
  absent_since timestamptz,
  provider_reference text,
  -- Does not change while the job is open. As the last column, it stays out of the write-ahead log record of a claim.
  request jsonb,
  check ((state = 'running') = (lease_token is not null)),
  check ((state in ('succeeded', 'failed', 'discarded')) = (finished_at is not null)),
  constraint jobs_running_attempt check (state <> 'running' or (worker is not null and started_at is not null)),
  constraint jobs_complete_call check (num_nulls(operation, generation, key, request) in (0, 4))
) with (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.02);

-- A claim changes no column of any of these indexes, so it writes no index.
create unique index jobs_dedupe on jobs (queue, dedupe_key) where dedupe_key is not null;
-- The open jobs of a queue, scanned tenant by tenant.
create index jobs_open on jobs (queue, tenant_id, priority, run_at) where finished_at is null;
create index jobs_of_resource on jobs (tenant_id, resource_id);
create index jobs_finished on jobs (finished_at, id) where finished_at is not null;
create index jobs_unknown on jobs (tenant_id, resource_id) where finished_at is null and unknown_since is not null;
create index jobs_retrying on jobs (name, failing_since) where finished_at is null and failing_since is not null;
create index jobs_retrying_of_tenant on jobs (tenant_id, name, failing_since)
  where finished_at is null and failing_since is not null;
-- For operators. A job leaves `jobs_newest` when it finishes, and enters `jobs_parked` only when it is parked.
create index jobs_newest on jobs (created_at, id) where finished_at is null;
create index jobs_parked on jobs (created_at, id) where finished_at is null and run_at = 'infinity';

-- The attempts that did not finish their job. A job that succeeds at its first attempt has none.
create table job_attempts (
  tenant_id uuid not null,
  job_id uuid not null,
  attempt integer not null,
  worker text not null,
  started_at timestamptz not null default clock_timestamp(),
  ended_at timestamptz,
  outcome text,
  error jsonb,
  -- Whether an earlier attempt with the same key may have reached the provider.
  in_doubt boolean not null default false,
  -- After a rotation: the call with the retired key.
  generation integer,
  key text,
  first_sent_at timestamptz,
  last_sent_at timestamptz,
  provider_reference text,
  primary key (job_id, attempt)
) with (fillfactor = 70);

-- Finished jobs move out of the tables that claims use. The history is partitioned by time, so that old rows are
-- deleted by dropping a table. The attempts and the notification of a job are also partitioned by the time at which
-- the job finished.
create table job_history (like jobs) partition by range (finished_at);
alter table job_history alter column finished_at set not null, add primary key (id, finished_at);
create table job_history_default partition of job_history default;
create index job_history_of_resource on job_history (tenant_id, resource_id) where resource_id is not null;
create index job_history_finished_at on job_history (finished_at);
create index job_history_tenant on job_history (tenant_id, finished_at);
create index job_history_failed on job_history (finished_at) where state in ('failed', 'discarded');

create table job_attempt_history (finished_at timestamptz not null, like job_attempts) partition by range (finished_at);
alter table job_attempt_history add primary key (job_id, attempt, finished_at);
create table job_attempt_history_default partition of job_attempt_history default;

-- All open and finished jobs, with their attempts and calls, without secrets. A reader needs rights to the tables and
-- to their histories.
create view all_jobs with (security_invoker = true) as
  select tenant_id, id, queue, name, resource_id, payload, state, attempt, last_error, created_at, finished_at,
    worker, started_at, outcome, operation, generation, first_sent_at, last_sent_at, provider_reference
  from jobs
  union all
  select tenant_id, id, queue, name, resource_id, payload, state, attempt, last_error, created_at, finished_at,
    worker, started_at, outcome, operation, generation, first_sent_at, last_sent_at, provider_reference
  from job_history;
create view all_job_attempts with (security_invoker = true) as
  select tenant_id, job_id, attempt, worker, started_at, ended_at, outcome, error, in_doubt,
    generation is not null as rotated
  from job_attempts
  union all
  -- While an attempt is running, its job has the error of the previous one.
  select tenant_id, id, attempt, worker, started_at, finished_at, outcome,
    case when state <> 'running' then last_error end, in_doubt, false
  from jobs where worker is not null
  union all
  select tenant_id, job_id, attempt, worker, started_at, ended_at, outcome, error, in_doubt, generation is not null
  from job_attempt_history
  union all
  select tenant_id, id, attempt, worker, started_at, finished_at, outcome, last_error, in_doubt, false
  from job_history where worker is not null;
create view all_provider_calls with (security_invoker = true) as
  select tenant_id, id as job_id, generation, key, operation, first_sent_at, last_sent_at, refused_since,
    case state when 'succeeded' then 'done' when 'failed' then 'declined' when 'discarded' then 'discarded'
    end as outcome, provider_reference
  from jobs where operation is not null
  union all
  select j.tenant_id, j.id, a.generation, a.key, j.operation, a.first_sent_at, a.last_sent_at, null, 'rotated',
    a.provider_reference
  from jobs j join job_attempts a on a.tenant_id = j.tenant_id and a.job_id = j.id and a.generation is not null
  union all
  select tenant_id, id, generation, key, operation, first_sent_at, last_sent_at, refused_since,
    case state when 'succeeded' then 'done' when 'failed' then 'declined' when 'discarded' then 'discarded'
    end, provider_reference
  from job_history where operation is not null
  union all
  select j.tenant_id, j.id, a.generation, a.key, j.operation, a.first_sent_at, a.last_sent_at, null, 'rotated',
    a.provider_reference
  from job_history j
  join job_attempt_history a on a.tenant_id = j.tenant_id and a.job_id = j.id and a.finished_at = j.finished_at
    and a.generation is not null;

create table pauses (
  queue text,
  tenant_id uuid,
  reason text,
  actor text check (length(actor) between 1 and 320),
  created_at timestamptz not null default now(),
  check (queue is not null or tenant_id is not null),
  unique nulls not distinct (queue, tenant_id),
  constraint pauses_tenant foreign key (tenant_id) references tenants (id)
);

create table idempotency_keys (
  tenant_id uuid not null,
  key text not null check (length(key) between 1 and 255),
  scope text not null,
  fingerprint text not null,
  resource text not null,
  resource_id uuid not null,
  job_id uuid,
  created_at timestamptz not null default now(),
  primary key (tenant_id, key, scope)
);
-- A B-tree and not BRIN: rows are also deleted, and a block range with reused space would span all times.
create index idempotency_keys_created_at on idempotency_keys (created_at);

-- The acts of operators on jobs.
create table job_acts (
  tenant_id uuid not null,
  id uuid primary key,
  job_id uuid not null,
  at timestamptz not null default clock_timestamp(),
  actor text not null,
  act text not null check (act in ('retry', 'discard', 'resolve', 'run_now')),
  reason text not null check (length(reason) between 1 and 1000),
  before text not null,
  after text not null
);
create index job_acts_job on job_acts (job_id, at);
create trigger job_acts_are_final before update or delete or truncate on job_acts
  for each statement execute function refuse_change();

-- Recurring work. Each kind has one row, and one worker at a time performs it.
create table recurring_work (
  name text primary key,
  due_at timestamptz not null,
  lease_token uuid,
  lease_until timestamptz,
  -- The position at which the next run begins.
  position jsonb,
  -- The result of the last successful run.
  result jsonb,
  started_at timestamptz,
  ended_at timestamptz,
  -- The worker of the present or last run, and the duration of the last successful run.
  worker text,
  duration_ms double precision,
  -- Why the last run failed, since when all runs have failed, and the number of these runs.
  failure text,
  failing_since timestamptz,
  failed_runs integer not null default 0
);

-- The queue of record: jobs, their attempts, the provider calls they make, and what pauses them.

create table jobs (
  id uuid primary key,
  tenant_id uuid not null,
  queue text not null,
  name text not null,
  subject_id uuid,
  payload jsonb not null,
  state text not null default 'ready' check (state in ('ready', 'running', 'succeeded', 'failed', 'unknown', 'discarded')),
  priority smallint not null default 0,
  run_at timestamptz not null default now(),
  rung_at timestamptz,
  attempt integer not null default 0,
  max_attempts integer not null,
  lease_token uuid,
  lease_until timestamptz,
  unknown_since timestamptz,
  last_error jsonb,
  result jsonb,
  dedupe_key text,
  trace_context text,
  created_at timestamptz not null default now(),
  started_at timestamptz,
  finished_at timestamptz,
  check ((state = 'running') = (lease_token is not null)),
  check ((state in ('succeeded', 'failed', 'discarded')) = (finished_at is not null))
) with (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);

create unique index jobs_dedupe on jobs (queue, dedupe_key) where dedupe_key is not null;
-- The open jobs of a queue, by turns of the tenants. Nothing in it changes when a job is claimed, so a claim writes no index.
create index jobs_open on jobs (queue, tenant_id, priority, run_at) where finished_at is null;
create index jobs_subject on jobs (tenant_id, subject_id);

create table job_attempts (
  job_id uuid not null,
  attempt integer not null,
  worker text not null,
  started_at timestamptz not null default clock_timestamp(),
  ended_at timestamptz,
  outcome text,
  error jsonb,
  primary key (job_id, attempt)
) with (fillfactor = 70);

-- Written with the job, before any call is made; `outcome` is null while the call may still be made under this key.
create table provider_calls (
  job_id uuid not null,
  generation integer not null default 1,
  key text not null,
  operation text not null,
  request jsonb not null,
  first_sent_at timestamptz,
  last_sent_at timestamptz,
  outcome text,
  provider_reference text,
  primary key (job_id, generation)
) with (fillfactor = 60);

create table pauses (
  queue text,
  tenant_id uuid,
  reason text,
  created_at timestamptz not null default now(),
  check (queue is not null or tenant_id is not null),
  unique nulls not distinct (queue, tenant_id)
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
create index idempotency_keys_created_at on idempotency_keys using brin (created_at);

-- Jobs whose last attempt failed, and what the providers answer to whom.

-- Since when each attempt at an open job has failed; null while none has, or the last one did not. Nothing of it changes when a job
-- is claimed, or when it succeeds at the first attempt.
alter table jobs add column failing_since timestamptz;
alter table job_history add column failing_since timestamptz;
create index jobs_retrying on jobs (name, failing_since) where finished_at is null and failing_since is not null;
create index jobs_retrying_of_tenant on jobs (tenant_id, name, failing_since) where finished_at is null and failing_since is not null;

-- Calls to providers that failed, by the minute. Calls that were answered are not written here.
create table provider_failures (
  provider text not null,
  at timestamptz not null,
  outcome text not null,
  count integer not null,
  primary key (provider, at, outcome)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);
create index provider_failures_at on provider_failures (at);

-- Which workers get no answer from a provider now: a row for each, as long as that is so.
create table provider_outages (
  provider text not null,
  worker text not null,
  since timestamptz not null,
  outcome text not null,
  seen_at timestamptz not null,
  primary key (provider, worker)
) with (fillfactor = 50);

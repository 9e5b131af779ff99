-- What is known of a provider call stands in its row, and what operators did about jobs is on record.

-- `first_sent_at` is null again when the attempt that set it is known to have sent nothing. So one that another attempt has
-- left says that the call may have reached the provider.
alter table provider_calls
  -- Since when each try was turned away before it had an effect; null when the last one was not.
  add column refused_since timestamptz;
alter table provider_calls alter column refused_since set statistics 10;

create table job_interventions (
  tenant_id uuid not null,
  id uuid primary key,
  job_id uuid not null,
  at timestamptz not null default clock_timestamp(),
  who text not null,
  act text not null check (act in ('retry', 'discard', 'resolve')),
  reason text not null check (length(reason) between 1 and 1000),
  before text not null,
  after text not null
);
create index job_interventions_job on job_interventions (job_id, at);
create trigger job_interventions_are_final before update or delete or truncate on job_interventions
  for each statement execute function refuse_change();

-- What operators ask for in the dashboard and workers carry out, which processes there are, and what operators look for.

-- One act for one job, or for all that a filter finds when the act begins. The dashboard asks by inserting the first columns; all others
-- are the workers' to write.
create table operator_acts (
  id uuid primary key,
  act text not null check (act in ('retry', 'discard', 'run_now')),
  job_id uuid,
  filter jsonb check (jsonb_typeof(filter) = 'object' and pg_column_size(filter) <= 4096),
  who text not null check (length(who) between 1 and 320),
  reason text not null check (length(reason) between 1 and 1000),
  -- How many jobs matched when it was asked for, as far as they were counted.
  matched integer not null check (matched >= 0),
  created_at timestamptz not null default now(),
  state text not null default 'asked' check (state in ('asked', 'running', 'done', 'canceled', 'failed')),
  -- Found when the act began, and what became of them; `more` says that there were more than one act takes.
  found integer not null default 0,
  done integer not null default 0,
  refused integer not null default 0,
  more boolean not null default false,
  error text,
  started_at timestamptz,
  updated_at timestamptz not null default clock_timestamp(),
  finished_at timestamptz,
  check (num_nonnulls(job_id, filter) = 1),
  check ((state in ('done', 'canceled', 'failed')) = (finished_at is not null))
);
create index operator_acts_open on operator_acts (updated_at) where finished_at is null;
create index operator_acts_listed on operator_acts (created_at, id);

-- A row of its own, so that who asks may insert and update nothing.
create table operator_act_cancellations (
  act_id uuid primary key references operator_acts on delete cascade,
  who text not null check (length(who) between 1 and 320),
  created_at timestamptz not null default now()
);

-- The jobs of an act, in the order of their ids. `at` is null until the act has come to them.
create table operator_act_items (
  act_id uuid not null references operator_acts on delete cascade,
  job_id uuid not null,
  at timestamptz,
  before text,
  -- Null where the act was refused: then `refused` says why.
  after text,
  look_only boolean not null default false,
  refused text,
  primary key (act_id, job_id)
);

alter table job_interventions drop constraint job_interventions_act_check,
  add constraint job_interventions_act_check check (act in ('retry', 'discard', 'resolve', 'run_now'));

alter table pauses add column who text check (length(who) between 1 and 320);

-- Who does it or did it last, and how long the last run took that ended.
alter table recurring_work add column worker text, add column duration_ms double precision;

-- Each process says every few seconds that it is there.
create table processes (
  id uuid primary key,
  name text not null check (length(name) <= 32),
  version text not null check (length(version) <= 64),
  host text not null check (length(host) <= 255),
  pid integer not null,
  queues text[] check (pg_column_size(queues) <= 1024),
  started_at timestamptz not null default now(),
  seen_at timestamptz not null default now()
);

-- What operators look for. No column of these changes when a job is claimed, so a claim writes no index; a job enters `jobs_newest` once,
-- at its end, and `jobs_parked` only when it is parked. The history is written once, an hour after a job is over.
create index jobs_newest on jobs (created_at, id) where finished_at is null;
create index jobs_parked on jobs (created_at, id) where finished_at is null and run_at = 'infinity';
create index job_history_tenant on job_history (tenant_id, finished_at);
create index job_history_failed on job_history (finished_at) where state in ('failed', 'discarded');
create index drifts_of_all on drifts (created_at, id) where mended_at is null;
create index notifications_parked_at on notifications (parked_at, id) where parked_at is not null;

-- A job's provider call and the attempt under way stand in the job's own row; `job_attempts` holds the attempts that did not end
-- their job, so that work which simply succeeds writes none. A process of an older version misses `provider_calls` and claims nothing.

do $$
declare
  jobs text;
  attempts text;
begin
  -- Alike in the tables and their history: what is over is moved as it stands.
  foreach jobs in array array['jobs', 'job_history'] loop
    execute format('alter table %I rename column trace_context to request_id', jobs);
    execute format($sql$
      alter table %I drop column result,
        -- `worker` and `started_at` are of the attempt that is under way, or that ended the job, and `outcome` says how it did.
        add column worker text,
        add column outcome text,
        -- Attempts that failed since one last got an answer.
        add column failures integer not null default 0,
        -- The provider call. Its key is for this generation; a rotation leaves the one before in its attempt.
        add column operation text,
        add column generation integer,
        add column key text,
        add column first_sent_at timestamptz,
        add column last_sent_at timestamptz,
        -- An attempt may have reached the provider, and its answer is not known.
        add column in_doubt boolean not null default false,
        -- Since when each try was turned away before it had an effect; null when the last one was not.
        add column refused_since timestamptz,
        add column provider_reference text,
        -- It does not change while the job is worked on. At the end of the row it is no part of what a claim logs.
        add column request jsonb$sql$, jobs);
  end loop;
  foreach attempts in array array['job_attempts', 'job_attempt_history'] loop
    execute format($sql$
      alter table %I
        -- Of a rotation: the call whose key it used up.
        add column generation integer,
        add column key text,
        add column first_sent_at timestamptz,
        add column last_sent_at timestamptz,
        add column provider_reference text$sql$, attempts);
  end loop;
end $$;

-- Nothing is in the history yet that has a call: it is as young as this.
create temporary table latest_call on commit drop as
  select distinct on (job_id) * from provider_calls order by job_id, generation desc;
alter table latest_call add primary key (job_id);
create temporary table failed_before on commit drop as
  select a.job_id, count(*) as failures from job_attempts a join jobs j on j.id = a.job_id
  where j.finished_at is null and a.attempt > j.attempt - 20 and (a.attempt < j.attempt or j.state <> 'running')
    and coalesce(a.outcome, 'lost') in ('retry', 'ambiguous', 'lost')
  group by a.job_id;
alter table failed_before add primary key (job_id);
analyze latest_call, failed_before;

update jobs j set worker = a.worker, started_at = a.started_at, outcome = a.outcome, failures = coalesce(f.failures, 0),
  operation = c.operation, generation = c.generation, key = c.key, first_sent_at = c.first_sent_at, last_sent_at = c.last_sent_at,
  -- Whoever is known to have sent nothing has taken back that it did.
  in_doubt = o.finished_at is null and c.job_id is not null
    and (c.first_sent_at is not null or o.unknown_since is not null or o.state = 'running'),
  refused_since = c.refused_since, provider_reference = c.provider_reference, request = c.request
from jobs o
left join latest_call c on c.job_id = o.id
left join failed_before f on f.job_id = o.id
-- The attempt that is under way, or that ended the job; what an operator discarded had none that did.
left join job_attempts a on a.job_id = o.id and a.attempt = o.attempt and case when o.finished_at is null then o.state = 'running'
  else coalesce(a.outcome, 'lost') not in ('retry', 'ambiguous', 'lost', 'returned', 'misconfigured', 'unknown', 'parked') end
where j.id = o.id;

-- A claim marked the call as sent when its attempt began.
update job_attempts a set generation = c.generation, key = c.key, first_sent_at = c.first_sent_at, last_sent_at = c.last_sent_at,
  provider_reference = c.provider_reference
from (
  select c.*, (
    select a.attempt from job_attempts a where a.job_id = c.job_id and a.outcome = 'retry'
    order by abs(extract(epoch from a.started_at - c.last_sent_at)), a.attempt limit 1) as attempt
  from provider_calls c where c.outcome = 'rotated'
) c
where a.job_id = c.job_id and a.attempt = c.attempt;

delete from job_attempts a using jobs j where j.id = a.job_id and j.attempt = a.attempt and j.worker is not null;

drop table provider_calls;

alter table jobs
  add constraint jobs_running_attempt check (state <> 'running' or (worker is not null and started_at is not null)),
  add constraint jobs_whole_call check (num_nulls(operation, generation, key, request) in (0, 4));

do $$
declare
  each record;
begin
  for each in
    select c.oid::regclass as name, a.attname as column_name from pg_attribute a join pg_class c on c.oid = a.attrelid
    where c.relnamespace = current_schema()::regnamespace and c.relkind = 'r' and a.attnum > 0 and not a.attisdropped
      and (c.relname in ('jobs', 'job_attempts') or c.relname like 'job\_history%' or c.relname like 'job\_attempt\_history%')
  loop
    execute format('alter table %s alter column %I set statistics 10', each.name, each.column_name);
  end loop;
end $$;

create or replace view all_jobs with (security_invoker = true) as
  select tenant_id, id, queue, name, subject_id, payload, state, attempt, last_error, created_at, finished_at, worker, started_at,
    outcome, operation, generation, first_sent_at, last_sent_at, provider_reference from jobs
  union all
  select tenant_id, id, queue, name, subject_id, payload, state, attempt, last_error, created_at, finished_at, worker, started_at,
    outcome, operation, generation, first_sent_at, last_sent_at, provider_reference from job_history;

-- Every attempt and every call of a job, wherever it stands.
create view all_job_attempts with (security_invoker = true) as
  select tenant_id, job_id, attempt, worker, started_at, ended_at, outcome, error from job_attempts
  union all
  -- While an attempt is under way, its job has the error of the one before.
  select tenant_id, id, attempt, worker, started_at, finished_at, outcome, case when state <> 'running' then last_error end
  from jobs where worker is not null
  union all
  select tenant_id, job_id, attempt, worker, started_at, ended_at, outcome, error from job_attempt_history
  union all
  select tenant_id, id, attempt, worker, started_at, finished_at, outcome, last_error from job_history where worker is not null;
create view all_provider_calls with (security_invoker = true) as
  select tenant_id, id as job_id, generation, key, operation, first_sent_at, last_sent_at, refused_since,
    case state when 'succeeded' then 'done' when 'failed' then 'declined' when 'discarded' then 'discarded' end as outcome,
    provider_reference
  from jobs where operation is not null
  union all
  select j.tenant_id, j.id, a.generation, a.key, j.operation, a.first_sent_at, a.last_sent_at, null, 'rotated', a.provider_reference
  from jobs j join job_attempts a on a.tenant_id = j.tenant_id and a.job_id = j.id and a.generation is not null
  union all
  select tenant_id, id, generation, key, operation, first_sent_at, last_sent_at, refused_since,
    case state when 'succeeded' then 'done' when 'failed' then 'declined' when 'discarded' then 'discarded' end, provider_reference
  from job_history where operation is not null
  union all
  select j.tenant_id, j.id, a.generation, a.key, j.operation, a.first_sent_at, a.last_sent_at, null, 'rotated', a.provider_reference
  from job_history j
  join job_attempt_history a on a.tenant_id = j.tenant_id and a.job_id = j.id and a.finished_at = j.finished_at and a.generation is not null;

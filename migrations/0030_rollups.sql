-- Roll-ups: the numbers behind the dashboard, written by a clock. Nothing here is written by a request or a job.

-- What became of jobs, by minute and by hour. `name`: that of the job, or '' for all of the queue.
create table job_rollups (
  -- In seconds.
  resolution smallint not null check (resolution in (60, 3600)),
  at timestamptz not null,
  queue text not null,
  name text not null,
  -- Of jobs that finished then.
  succeeded integer not null default 0,
  failed integer not null default 0,
  discarded integer not null default 0,
  -- Of those, by how their provider call ended: it was declined.
  declined integer not null default 0,
  attempts integer not null default 0,
  -- How many of them waited and ran for how long: a number for each bucket of domain/rollups/histograms.ts, up to the last that is not 0.
  wait integer[] not null default '{}',
  run integer[] not null default '{}',
  -- Jobs that came.
  arrived integer not null default 0,
  -- Open jobs: as they were last seen in that minute, the most that were seen in that hour; null when nobody looked.
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

-- Whose jobs these were: a bounded number of tenants for each queue; 00000000-0000-0000-0000-000000000000 stands for all others.
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

-- What became of the payments of a tenant, by day (UTC), as its events tell.
create table payment_days (
  tenant_id uuid not null,
  day date not null,
  currency text not null,
  kind text not null,
  count bigint not null,
  -- Sums of many large amounts.
  amount_minor numeric not null,
  primary key (tenant_id, day, currency, kind)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);
create index payment_days_day on payment_days (day);

-- Up to which sequence the events of each tenant are counted in that.
create table payment_cursors (
  tenant_id uuid primary key,
  sequence bigint not null,
  counted_at timestamptz not null default clock_timestamp()
) with (fillfactor = 50);

do $$
declare
  each record;
begin
  for each in
    select a.attrelid::regclass as name, a.attname as column_name from pg_attribute a join pg_class c on c.oid = a.attrelid
    where c.relnamespace = current_schema()::regnamespace and c.relkind = 'r' and a.attnum > 0 and not a.attisdropped
      and c.relname in ('job_rollups', 'tenant_rollups', 'payment_days', 'payment_cursors')
  loop
    execute format('alter table %s alter column %I set statistics 10', each.name, each.column_name);
  end loop;
end $$;

-- What is over leaves the tables that the hot statements use: finished jobs go to a history, with all that belongs to them, and history
-- and events are partitioned by time, so that forgetting is dropping a table.

-- The history of a job is that of its attempts and notification too: all of it is filed under when the job finished.
-- That column comes first, so that a column added to both tables stands in the same place.
create table job_history (like jobs) partition by range (finished_at);
alter table job_history alter column finished_at set not null, add primary key (id, finished_at);
create index job_history_subject on job_history (tenant_id, subject_id) where subject_id is not null;
-- For operators: what ended last.
create index job_history_finished_at on job_history (finished_at);

create table job_attempt_history (finished_at timestamptz not null, like job_attempts) partition by range (finished_at);
alter table job_attempt_history add primary key (job_id, attempt, finished_at);

create table notification_history (finished_at timestamptz not null, like notifications) partition by range (finished_at);
alter table notification_history add primary key (id, finished_at);
create index notification_history_subject on notification_history (tenant_id, subject_id) where subject_id is not null;

-- Events: what there is becomes the first partition, as it stands. Nothing is copied; its indexes are made anew.
alter table events rename to events_before;
alter index events_subject rename to events_before_subject;
alter table events_before drop constraint events_pkey;
create table events (like events_before including defaults) partition by range (created_at);
alter table events add primary key (tenant_id, id, created_at);
create index events_subject on events (tenant_id, subject_id);
-- What came lately is next to each other in what is only ever appended to.
create index events_created_at on events using brin (created_at);
create index ledger_transactions_created_at on ledger_transactions using brin (created_at);

-- A week begins on Monday, UTC. What fits no partition lands in the default one: nothing is refused, and it is seen.
do $$
declare
  each text;
  monday timestamptz := (date_trunc('week', now() at time zone 'UTC') + interval '7 days') at time zone 'UTC';
begin
  foreach each in array array['job_history', 'job_attempt_history', 'notification_history'] loop
    execute format('create table %I partition of %I for values from (minvalue) to (%L)', each || '_before', each, monday);
    execute format('create table %I partition of %I default', each || '_default', each);
  end loop;
  execute format('alter table events attach partition events_before for values from (minvalue) to (%L)',
    greatest(monday, (select max(created_at) + interval '1 second' from events_before)));
  create table events_default partition of events default;
end $$;

-- The partitions and the time that each holds; null where it has no bound, both where it is the default one.
create view partitions as
  select parent.relname as parent, c.relname as name, bound = 'DEFAULT' as is_default,
    (regexp_match(bound, 'FROM \(''([^'']+)''\)'))[1]::timestamptz as from_time,
    (regexp_match(bound, 'TO \(''([^'']+)''\)'))[1]::timestamptz as to_time
  from pg_inherits i
  join pg_class c on c.oid = i.inhrelid and c.relispartition and c.relkind = 'r'
  join pg_class parent on parent.oid = i.inhparent
  cross join lateral pg_get_expr(c.relpartbound, c.oid) bound
  where parent.relname in ('events', 'job_history', 'job_attempt_history', 'notification_history')
    and parent.relnamespace = (select relnamespace from pg_class where oid = 'jobs'::regclass);

-- Makes one partition of the next four weeks that is not there yet and answers its name; null when all are.
-- Attached rather than created in place: that does not wait for who writes, nor keep them waiting. What it must lock (the
-- default partition) it gets at once or not now.
create function make_next_partition() returns text language plpgsql as $$
declare
  each record;
begin
  for each in
    select parent.name as parent, week as from_time, week + interval '7 days' as to_time,
      parent.name || to_char(week, '_YYYYMMDD') as name
    from unnest(array['events', 'job_history', 'job_attempt_history', 'notification_history']) parent(name)
    cross join generate_series(date_trunc('week', now()), now() + interval '28 days', interval '7 days') week
    where not exists (
      select from partitions p where p.parent = parent.name and not p.is_default
        and coalesce(p.from_time, '-infinity') < week + interval '7 days' and coalesce(p.to_time, 'infinity') > week)
    order by week, parent.name
  loop
    begin
      execute format('create table %I (like %I including defaults)', each.name, each.parent);
      execute (
        select string_agg(format('alter table %I alter column %I set statistics 10', each.name, attname), ';') from pg_attribute
        where attrelid = each.name::regclass and attnum > 0 and not attisdropped);
      execute format('alter table %I attach partition %I for values from (%L) to (%L)',
        each.parent, each.name, each.from_time, each.to_time);
      return each.name;
    exception
      -- Not now; or somebody else makes it; or rows of that time are in the default partition, and stay there.
      when lock_not_available or duplicate_table or unique_violation or check_violation then continue;
    end;
  end loop;
  return null;
end $$;

-- Forgets the oldest partition of a kind that ended so many days ago, and what lies in the default one from before; answers what was
-- dropped, null when there is nothing left. A drop keeps all who use the table waiting: it gets its lock at once or not now.
-- Keys are remembered for 30 days, and as long a provider may tell the same again: nothing is forgotten before 31.
create function drop_next_partition(kind text, days integer) returns text language plpgsql as $$
declare
  parents constant text[] := case kind
    when 'jobs' then array['job_history', 'job_attempt_history']
    when 'notifications' then array['notification_history']
    when 'events' then array['events'] end;
  ended constant timestamptz := (select min(to_time) from partitions where parent = any(parents));
  names text;
  parent text;
begin
  if parents is null or days is null or days < 31 then
    raise exception 'history of "%" is not forgotten after % days', kind, days using errcode = 'invalid_parameter_value';
  end if;
  if ended <= now() - days * interval '1 day' then
    names := (select string_agg(format('%I', name), ', ') from partitions p where p.parent = any(parents) and p.to_time = ended);
    execute 'drop table ' || names;
    return names;
  end if;
  foreach parent in array parents loop
    execute format('delete from %I where %I < now() - %s * interval ''1 day''', parent || '_default',
      case when kind = 'events' then 'created_at' else 'finished_at' end, days);
  end loop;
  return null;
exception
  -- Not now; or somebody else was faster.
  when lock_not_available or undefined_table then return null;
end $$;

-- How many rows (at most 1,000 of each) fitted no partition.
create function count_strays() returns table (parent text, strays bigint) language plpgsql as $$
declare
  each record;
begin
  for each in select p.parent, p.name from partitions p where p.is_default loop
    parent := each.parent;
    execute format('select count(*) from (select from %I limit 1000) stray', each.name) into strays;
    return next;
  end loop;
end $$;

-- Moves jobs that finished more than an hour ago, oldest first, from a position on: with their attempts and notification.
-- A notification goes with the job that applied or ignored it and not otherwise; what was discarded stays for thirty days, for a
-- person to look at. At most `most` are looked at; answers how many were, how many went, and the position reached.
create function move_finished_jobs(
  after timestamptz, after_id uuid, most integer, out looked_at integer, out moved integer, out reached timestamptz, out reached_id uuid
) language sql as $$
  with picked as materialized (
    select j.tenant_id, j.id, j.finished_at,
      (j.state <> 'discarded' or j.finished_at < now() - interval '30 days')
        and (n.id is null or (n.state in ('applied', 'ignored') and j.state = 'succeeded')
          or (n.state = 'ignored' and j.state = 'discarded')) as goes
    from jobs j left join notifications n on n.id = j.id
    where (j.finished_at, j.id) > (after, after_id) and j.finished_at < now() - interval '1 hour'
    order by j.finished_at, j.id limit most
    for update of j skip locked
  ), job as (
    delete from jobs j using picked p where p.goes and j.id = p.id returning j.*
  ), attempt as (
    delete from job_attempts a using picked p where p.goes and a.tenant_id = p.tenant_id and a.job_id = p.id returning p.finished_at, a.*
  ), notification as (
    delete from notifications n using picked p where p.goes and n.id = p.id returning p.finished_at, n.*
  ), kept_job as (insert into job_history select * from job),
  kept_attempt as (insert into job_attempt_history select * from attempt),
  kept_notification as (insert into notification_history select * from notification)
  select count(*)::integer, (count(*) filter (where goes))::integer,
    (array_agg(finished_at order by finished_at desc, id desc))[1], (array_agg(id order by finished_at desc, id desc))[1]
  from picked
$$;

-- With the owner's rights: no process may delete a job or drop a table otherwise. Who may call them says roles.sql.
do $$
declare
  each text;
begin
  foreach each in array array['make_next_partition()', 'drop_next_partition(text, integer)', 'count_strays()',
    'move_finished_jobs(timestamptz, uuid, integer)'] loop
    execute format('alter function %s security definer set search_path = %I, pg_temp', each, current_schema());
    execute format('revoke all on function %s from public', each);
  end loop;
  -- A plan that was made while the tables were empty would scan them for ever.
  alter function move_finished_jobs(timestamptz, uuid, integer) set plan_cache_mode = 'force_custom_plan';
  foreach each in array array['make_next_partition()', 'drop_next_partition(text, integer)'] loop
    execute format('alter function %s set timezone = ''UTC''', each);
    execute format('alter function %s set lock_timeout = ''50ms''', each);
  end loop;
end $$;

-- What there is and what there was. Who asks needs the rights to both tables; secrets are in none of them.
create view all_jobs with (security_invoker = true) as
  select tenant_id, id, queue, name, subject_id, payload, state, attempt, last_error, created_at, finished_at from jobs
  union all
  select tenant_id, id, queue, name, subject_id, payload, state, attempt, last_error, created_at, finished_at from job_history;
create view all_notifications with (security_invoker = true) as
  select id, provider, event_id, kind, object_id, state, tenant_id, subject_id, received_at, applied_at from notifications
  union all
  select id, provider, event_id, kind, object_id, state, tenant_id, subject_id, received_at, applied_at from notification_history;

-- What the sweeps look for, and nothing else. None of their columns changes when a job is claimed or a payment captured.
create index jobs_finished on jobs (finished_at, id) where finished_at is not null;
create index jobs_unknown on jobs (tenant_id, subject_id) where finished_at is null and unknown_since is not null;
create index payments_unwarned on payments (capture_before)
  where open and capture_before is not null and capture_expiry_warned_at is null;
-- Only what waits for its buyer has a client secret.
create index payments_awaiting_buyer on payments (created_at) where open and client_secret is not null;

-- Rows come and go here, and a block range that was used again spans all times.
drop index idempotency_keys_created_at;
create index idempotency_keys_created_at on idempotency_keys (created_at);
drop index notifications_received_at;
create index notifications_received_at on notifications (received_at);

do $$
declare
  each record;
begin
  for each in
    select a.attrelid::regclass as name, a.attname as column_name from pg_attribute a join pg_class c on c.oid = a.attrelid
    where c.relnamespace = current_schema()::regnamespace and c.relkind = 'r' and c.relispartition and a.attnum > 0 and not a.attisdropped
  loop
    execute format('alter table %s alter column %I set statistics 10', each.name, each.column_name);
  end loop;
end $$;

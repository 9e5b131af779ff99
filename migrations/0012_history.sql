-- Retention and erasure: weekly partitions, the history of jobs and notifications, and the data of deleted
-- customers.

-- A week begins on Monday, UTC. The first partition of each table ends with this week. A row outside all
-- partitions goes to the default one: nothing is rejected, and the audit counts it.
do $$
declare
  monday constant timestamptz := (date_trunc('week', now() at time zone 'UTC') + interval '7 days') at time zone 'UTC';
  each record;
begin
  for each in select * from (values
    ('job_history', 'job_history_before'), ('job_attempt_history', 'job_attempt_history_before'),
    ('notification_history', 'notification_history_before'), ('sequenced_events', 'events_before')
  ) first(parent, name)
  loop
    execute format('create table %I partition of %I for values from (minvalue) to (%L)',
      each.name, each.parent, monday);
  end loop;
end $$;

-- The assumed number of event types, as in `make_next_partition`.
alter table events_before alter column type set (n_distinct = 100);
alter table events_default alter column type set (n_distinct = 100);

-- The partitions, each with its time range. A missing bound is null; the default partition has no bounds.
create view partitions as
  select parent.relname as parent, c.relname as name, bound = 'DEFAULT' as is_default,
    (regexp_match(bound, 'FROM \(''([^'']+)''\)'))[1]::timestamptz as from_time,
    (regexp_match(bound, 'TO \(''([^'']+)''\)'))[1]::timestamptz as to_time
  from pg_inherits i
  join pg_class c on c.oid = i.inhrelid and c.relispartition and c.relkind = 'r'
  join pg_class parent on parent.oid = i.inhparent
  cross join lateral pg_get_expr(c.relpartbound, c.oid) bound
  where parent.relname in
    ('sequenced_events', 'webhook_deliveries', 'job_history', 'job_attempt_history', 'notification_history')
    and parent.relnamespace = (select relnamespace from pg_class where oid = 'jobs'::regclass);

-- Creates one missing partition of the next four weeks and returns its name; null if none is missing. The partition is
-- created as a table and then attached, which neither waits for writers nor blocks them. The default partition is
-- locked only if its lock is free.
--
-- This function and those below run with the owner's rights: no process may create or drop a table, delete a
-- job or change an event otherwise. `roles.sql` grants the right to call them.
create function make_next_partition() returns text language plpgsql security definer
set timezone = 'UTC' set lock_timeout = '50ms' as $$
declare
  each record;
begin
  for each in
    select parent.name as parent, week as from_time, week + interval '7 days' as to_time,
      parent.name || to_char(week, '_YYYYMMDD') as name
    from unnest(array[
      'sequenced_events', 'webhook_deliveries', 'job_history', 'job_attempt_history', 'notification_history'
    ]) parent(name)
    cross join generate_series(date_trunc('week', now()), now() + interval '28 days', interval '7 days') week
    where not exists (
      select from partitions p where p.parent = parent.name and not p.is_default
        and coalesce(p.from_time, '-infinity') < week + interval '7 days' and coalesce(p.to_time, 'infinity') > week)
    order by week, parent.name
  loop
    begin
      execute format('create table %I (like %I including defaults including constraints)', each.name, each.parent);
      if each.parent = 'webhook_deliveries' then
        execute format('alter table %I set (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.05)', each.name);
      end if;
      execute (
        select string_agg(format('alter table %I alter column %I set statistics 10', each.name, attname), ';')
        from pg_attribute
        where attrelid = each.name::regclass and attnum > 0 and not attisdropped);
      -- The number of types is fixed here. If the planner estimated it from a sample without a rare type, a feed of
      -- that type would be read in the order of all sequences.
      if each.parent = 'sequenced_events' then
        execute format('alter table %I alter column type set (n_distinct = 100)', each.name);
      end if;
      execute format('alter table %I attach partition %I for values from (%L) to (%L)',
        each.parent, each.name, each.from_time, each.to_time);
      return each.name;
    exception
      -- The default partition is locked; or another process creates this partition; or the default partition has rows
      -- of this time range, which stay there.
      when lock_not_available or duplicate_table or unique_violation or check_violation then continue;
    end;
  end loop;
  return null;
end $$;

-- Drops the oldest partitions of a kind if they ended more than `days` days ago; otherwise deletes equally old rows of
-- the default partitions. Returns the names of the dropped partitions, or null. A drop blocks all users of the table,
-- so nothing is dropped while the table is locked. Idempotency keys protect requests for 30 days, and a provider may
-- repeat a notification for 30 days: the minimum of `days` is 31.
create function drop_next_partition(kind text, days integer) returns text language plpgsql security definer
set timezone = 'UTC' set lock_timeout = '50ms' as $$
declare
  parents constant text[] := case kind
    when 'jobs' then array['job_history', 'job_attempt_history']
    when 'notifications' then array['notification_history']
    when 'events' then array['sequenced_events', 'webhook_deliveries'] end;
  ended constant timestamptz := (select min(to_time) from partitions where parent = any(parents));
  names text;
  of_parent text;
begin
  if parents is null or days is null or days < 31 then
    raise exception 'the history of "%" cannot be deleted after % days: the minimum is 31', kind, days
      using errcode = 'invalid_parameter_value';
  end if;
  if ended <= now() - days * interval '1 day' then
    names := (select string_agg(format('%I', name), ', ') from partitions p
      where p.parent = any(parents) and p.to_time = ended);
    execute 'drop table ' || names;
    return names;
  end if;
  foreach of_parent in array parents loop
    execute format('delete from %I where %I < now() - %s * interval ''1 day''',
      (select p.name from partitions p where p.parent = of_parent and p.is_default),
      case when kind = 'events' then 'created_at' else 'finished_at' end, days);
  end loop;
  return null;
exception
  -- The partition is locked, or another process has dropped it.
  when lock_not_available or undefined_table then return null;
end $$;

-- Counts the rows in default partitions, at most 1,000 for each table.
create function count_strays() returns table (parent text, strays bigint) language plpgsql security definer as $$
declare
  each record;
begin
  for each in select p.parent, p.name from partitions p where p.is_default loop
    parent := each.parent;
    execute format('select count(*) from (select from %I limit 1000) stray', each.name) into strays;
    return next;
  end loop;
end $$;

-- Moves jobs that finished more than an hour ago to the history with their attempts and notification, oldest first,
-- beginning after the position (`after`, `after_id`). A notification moves only with the job that applied or ignored
-- it. A discarded job stays for 30 days, so that operators can see it. Scans at most `most` jobs; returns the numbers
-- of scanned and moved jobs, and the position reached.
--
-- Each call is planned anew: a plan that was made for empty tables would scan them completely.
create function move_finished_jobs(
  after timestamptz, after_id uuid, most integer,
  out scanned integer, out moved integer, out reached timestamptz, out reached_id uuid
) language sql security definer set plan_cache_mode = 'force_custom_plan' as $$
  with picked as materialized (
    select j.tenant_id, j.id, j.finished_at,
      (j.state <> 'discarded' or j.finished_at < now() - interval '30 days')
        and (n.id is null or (n.state in ('applied', 'ignored') and j.state = 'succeeded')
          or (n.state = 'ignored' and j.state = 'discarded')) as moves
    from jobs j left join notifications n on n.id = j.id
    where (j.finished_at, j.id) > (after, after_id) and j.finished_at < now() - interval '1 hour'
    order by j.finished_at, j.id limit most
    for update of j skip locked
  ), job as (
    delete from jobs j using picked p where p.moves and j.id = p.id returning j.*
  ), attempt as (
    delete from job_attempts a using picked p where p.moves and a.tenant_id = p.tenant_id and a.job_id = p.id
    returning p.finished_at, a.*
  ), notification as (
    delete from notifications n using picked p where p.moves and n.id = p.id returning p.finished_at, n.*
  ), stored_job as (insert into job_history select * from job),
  stored_attempt as (insert into job_attempt_history select * from attempt),
  stored_notification as (insert into notification_history select * from notification)
  select count(*)::integer, (count(*) filter (where moves))::integer,
    (array_agg(finished_at order by finished_at desc, id desc))[1],
    (array_agg(id order by finished_at desc, id desc))[1]
  from picked
$$;

-- Moves notifications that became final without a job more than an hour ago, in the order in which they were received,
-- beginning after the position (`after`, `after_id`). A notification with a job moves with its job. Scans at most
-- `most` notifications; returns the numbers of scanned and moved notifications, and the position reached.
create function move_notifications(
  after timestamptz, after_id uuid, most integer,
  out scanned integer, out moved integer, out reached timestamptz, out reached_id uuid
) language sql security definer set plan_cache_mode = 'force_custom_plan' as $$
  with picked as materialized (
    select n.id, n.received_at, n.state in ('applied', 'ignored') and n.applied_at < now() - interval '1 hour'
      and not exists (select from jobs j where j.id = n.id offset 0) as moves
    from notifications n
    -- A waiting notification becomes final a little later than it was received: the position must not pass a
    -- notification that still waits.
    where (n.received_at, n.id) > (after, after_id) and n.received_at < now() - interval '62 minutes'
    order by n.received_at, n.id limit most
    for update of n skip locked
  ), notification as (
    delete from notifications n using picked p where p.moves and n.id = p.id returning n.applied_at, n.*
  ),
  kept as (insert into notification_history select * from notification)
  select count(*)::integer, (count(*) filter (where moves))::integer,
    (array_agg(received_at order by received_at desc, id desc))[1],
    (array_agg(id order by received_at desc, id desc))[1]
  from picked
$$;

-- Deleted customers whose earlier events still contain personal data. A customer may have any number of events, so the
-- data is erased in steps.
create table erasures (
  tenant_id uuid not null,
  customer_id uuid not null,
  -- When the next step for this customer is due: each step moves the customer behind the others.
  due_at timestamptz not null default clock_timestamp(),
  -- The last erased event.
  after_at timestamptz not null default '-infinity',
  after_id uuid not null default '00000000-0000-0000-0000-000000000000',
  primary key (tenant_id, customer_id),
  foreign key (tenant_id, customer_id) references customers (tenant_id, id)
);
create index erasures_due on erasures (due_at);

-- Erases the personal data of the next `most` events of a deleted customer and returns their number; null if
-- there is nothing to erase. After all of the customer's own events, the events of their verifications follow.
-- A customer whose verification has an open call is retried later, because more events may follow. The excerpts
-- of an event's deliveries are erased with it.
create function erase_next_events(most integer) returns integer
language sql security definer set plan_cache_mode = 'force_custom_plan' as $$
  with erasure as materialized (
    select * from erasures where due_at <= clock_timestamp() order by due_at limit 1 for update skip locked
  ), step as materialized (
    select e.* from erasure cross join lateral (
      select e.tenant_id, e.id, e.created_at from events e
      where e.tenant_id = erasure.tenant_id and e.subject_id = erasure.customer_id and e.type like 'customer.%'
        and (e.created_at, e.id) > (erasure.after_at, erasure.after_id)
      order by e.created_at, e.id limit most
    ) e
  ), erased as (
    update events e set data = e.data - array['name', 'email', 'phone', 'metadata'] from step
    where e.tenant_id = step.tenant_id and e.id = step.id and e.created_at = step.created_at
      and e.type <> 'customer.deleted'
  ), reached as (
    select created_at, id from step order by created_at desc, id desc limit 1
  ), kept as (
    update erasures r set due_at = clock_timestamp(), after_at = reached.created_at, after_id = reached.id
    from erasure, reached
    where r.tenant_id = erasure.tenant_id and r.customer_id = erasure.customer_id and (select count(*) from step) = most
  ), waits as (
    -- A call that may be repeated needs its request unchanged; nothing else delays the erasure. A finished job whose
    -- request still has its `return_url` may move to the history during this step, so the customer gets another step,
    -- which finds the job there.
    update erasures r
    set due_at = clock_timestamp() + case when pending.is_open then interval '10 seconds' else interval '0' end
    from erasure cross join lateral (
      select bool_or(j.finished_at is null) as is_open
      from verifications v join jobs j on j.tenant_id = v.tenant_id and j.resource_id = v.id
      where v.tenant_id = erasure.tenant_id and v.subject_id = erasure.customer_id and v.subject_type = 'customer'
        and (j.finished_at is null or j.request ->> 'return_url' is not null)
    ) pending
    where r.tenant_id = erasure.tenant_id and r.customer_id = erasure.customer_id and (select count(*) from step) < most
      and pending.is_open is not null
    returning r.tenant_id
  ), done as (
    delete from erasures r using erasure
    where r.tenant_id = erasure.tenant_id and r.customer_id = erasure.customer_id and (select count(*) from step) < most
      and not exists (select from waits)
  ), verified as materialized (
    select v.tenant_id, v.id from erasure join verifications v
      on v.tenant_id = erasure.tenant_id and v.subject_id = erasure.customer_id and v.subject_type = 'customer'
    where (select count(*) from step) < most
  ), forgotten as (
    update verifications v
    set metadata = '{}', return_url = null, decision_reason = null, updated_at = clock_timestamp() from verified
    where v.tenant_id = verified.tenant_id and v.id = verified.id
      and (v.metadata, v.return_url, v.decision_reason) is distinct from ('{}'::jsonb, null::text, null::text)
  ), updated_events as (
    update events e set data = e.data - array['metadata', 'return_url', 'decision_reason'] from verified
    where e.tenant_id = verified.tenant_id and e.subject_id = verified.id and e.type like 'kyc.%'
      and e.data ?| array['metadata', 'return_url', 'decision_reason']
  ), updated_jobs as (
    update jobs j set request = j.request || '{"return_url": null}' from verified
    where j.tenant_id = verified.tenant_id and j.resource_id = verified.id and j.finished_at is not null
      and j.request ->> 'return_url' is not null
  ), updated_job_history as (
    update job_history j set request = j.request || '{"return_url": null}' from verified
    where j.tenant_id = verified.tenant_id and j.resource_id = verified.id and j.request ->> 'return_url' is not null
  ), updated_deliveries as (
    update webhook_deliveries d set excerpts_erased = true, attempts_log = (
      select coalesce(jsonb_agg(attempt || '{"response_excerpt": null}' order by nth), '[]')
      from jsonb_array_elements(d.attempts_log) with ordinality as logged(attempt, nth))
    from (
      select tenant_id, id from step
      union all
      select e.tenant_id, e.id from verified v join events e
        on e.tenant_id = v.tenant_id and e.subject_id = v.id and e.type like 'kyc.%'
    ) erased_event
    where d.tenant_id = erased_event.tenant_id and d.event_id = erased_event.id and not d.excerpts_erased
  )
  select (select count(*)::integer from step) from erasure
$$;

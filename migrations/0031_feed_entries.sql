-- The order of each feed, in a narrow table of its own: an event gets its position without being written again. This
-- release still writes the position into the event as well, for processes of the previous release. All read it here.

-- The position of an event in its tenant's feed. `created_at`: that of the event, so both are in partitions of the same
-- week and are dropped together.
create table feed_entries (
  tenant_id uuid not null,
  sequence bigint not null,
  event_id uuid not null,
  type text not null,
  created_at timestamptz not null,
  constraint feed_entries_pkey primary key (tenant_id, sequence, created_at),
  -- Also the way from an event to its position.
  constraint feed_entries_event unique (tenant_id, event_id, created_at)
) partition by range (created_at);
create index feed_entries_type on feed_entries (tenant_id, type, sequence);
create table feed_entries_default partition of feed_entries default;

do $$
declare
  each record;
begin
  for each in
    select * from partitions p where p.parent = 'sequenced_events' and not p.is_default order by p.to_time
  loop
    execute format('create table %I partition of feed_entries for values from (%s) to (%L)',
      'feed_entries' || coalesce(to_char(each.from_time at time zone 'UTC', '_YYYYMMDD'), '_before'),
      coalesce(quote_literal(each.from_time), 'minvalue'), each.to_time);
  end loop;
  -- As for all columns, and for the types of events: see 0015_settings.sql and `make_next_partition`.
  for each in
    select a.attrelid::regclass as name, a.attname as column_name from pg_attribute a
    join pg_class c on c.oid = a.attrelid
    where c.relnamespace = current_schema()::regnamespace and c.relkind = 'r' and c.relname like 'feed\_entries\_%'
      and a.attnum > 0
  loop
    execute format('alter table %s alter column %I set statistics 10', each.name, each.column_name);
    if each.column_name = 'type' then
      execute format('alter table %s alter column type set (n_distinct = 100)', each.name);
    end if;
  end loop;
end $$;

-- The partitions, each with its time range. A missing bound is null; the default partition has no bounds.
create or replace view partitions as
  select parent.relname as parent, c.relname as name, bound = 'DEFAULT' as is_default,
    (regexp_match(bound, 'FROM \(''([^'']+)''\)'))[1]::timestamptz as from_time,
    (regexp_match(bound, 'TO \(''([^'']+)''\)'))[1]::timestamptz as to_time
  from pg_inherits i
  join pg_class c on c.oid = i.inhrelid and c.relispartition and c.relkind = 'r'
  join pg_class parent on parent.oid = i.inhparent
  cross join lateral pg_get_expr(c.relpartbound, c.oid) bound
  where parent.relname in
    ('sequenced_events', 'feed_entries', 'webhook_deliveries', 'job_history', 'job_attempt_history',
      'notification_history')
    and parent.relnamespace = (select relnamespace from pg_class where oid = 'jobs'::regclass);

-- As in 0012_history.sql, with the partitions of `feed_entries`.
create or replace function make_next_partition() returns text language plpgsql security definer
set timezone = 'UTC' set lock_timeout = '50ms' as $$
declare
  each record;
begin
  for each in
    select parent.name as parent, week as from_time, week + interval '7 days' as to_time,
      parent.name || to_char(week, '_YYYYMMDD') as name
    from unnest(array[
      'sequenced_events', 'feed_entries', 'webhook_deliveries', 'job_history', 'job_attempt_history',
      'notification_history'
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
      if each.parent in ('sequenced_events', 'feed_entries') then
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

-- As in 0012_history.sql, with the partitions of `feed_entries`.
create or replace function drop_next_partition(kind text, days integer) returns text language plpgsql security definer
set timezone = 'UTC' set lock_timeout = '50ms' as $$
declare
  parents constant text[] := case kind
    when 'jobs' then array['job_history', 'job_attempt_history']
    when 'notifications' then array['notification_history']
    when 'events' then array['sequenced_events', 'feed_entries', 'webhook_deliveries'] end;
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

-- As in 0016_traces.sql, with the entries of the feed, and without a lock while no event waits.
create or replace function sequence_events(most integer)
returns table (tenant_id uuid, events integer, deliveries integer, more boolean, traces text[])
language plpgsql security definer set enable_seqscan = off as $$
#variable_conflict use_column
begin
  -- The lock is a write, and idle workers call this function all the time. The order makes PostgreSQL use the index, in
  -- which it skips events that were moved and are not vacuumed yet.
  perform from unsequenced_events u order by u.tenant_id limit 1;
  if not found then return; end if;
  perform from event_sequences s where s.tenant_id = '00000000-0000-7000-8000-000000000000' for update skip locked;
  if not found then return; end if;
  return query
  with recursive tenant as (
    (select u.tenant_id from unsequenced_events u order by u.tenant_id limit 1)
    union all
    select next.tenant_id from tenant t cross join lateral (
      select u.tenant_id from unsequenced_events u where u.tenant_id > t.tenant_id order by u.tenant_id limit 1) next
  ), share as (
    -- For each tenant: the number of rows that one event creates, and the maximum number of events.
    select s.*, greatest(1, 100 / s.cost, most / (s.cost * count(*) over ())) as most_events from (
      select t.tenant_id, 1 + (
        select count(*) from webhook_endpoints p where p.tenant_id = t.tenant_id and p.deleted_at is null) as cost
      from tenant t
    ) s
  ), waiting as (
    select u.*, s.cost, s.most_events, row_number() over (partition by u.tenant_id order by u.created_at, u.id) as nth
    from share s cross join lateral (
      select u.tenant_id, u.created_at, u.id from unsequenced_events u where u.tenant_id = s.tenant_id
      order by u.created_at, u.id limit s.most_events
    ) u
  ), ranked as (
    select w.*, count(*) over (partition by w.tenant_id) as waiting,
      sum(w.cost) over (order by w.nth, w.tenant_id) as total
    from waiting w
  ), picked as materialized (
    select t.*, count(*) over (partition by t.tenant_id) as of_tenant from ranked t where t.total - t.cost < most
  ), advanced as (
    insert into event_sequences as s (tenant_id, last_sequence)
    select p.tenant_id, p.of_tenant from picked p where p.nth = 1 order by p.tenant_id
    on conflict (tenant_id) do update set last_sequence = s.last_sequence + excluded.last_sequence
    returning s.tenant_id, s.last_sequence
  ), numbered as materialized (
    select array_agg(p.id) as ids,
      jsonb_object_agg(p.id, (last.sequences ->> p.tenant_id::text)::bigint - p.of_tenant + p.nth) as sequences
    from picked p cross join (select jsonb_object_agg(a.tenant_id, a.last_sequence) as sequences from advanced a) last
  ), moved as (
    update events e set sequenced = true, sequence = ((select n.sequences from numbered n) ->> e.id::text)::bigint
    where not e.sequenced and e.id = any((select n.ids from numbered n)::uuid[])
    returning e.tenant_id, e.id, e.type, e.sequence, e.created_at, e.trace_context
  ), entry as (
    insert into feed_entries (tenant_id, sequence, event_id, type, created_at)
    select m.tenant_id, m.sequence, m.id, m.type, m.created_at from moved m order by m.tenant_id, m.sequence
  ), traced as materialized (
    select jsonb_object_agg(m.id, m.trace_context) filter (where m.trace_context is not null) as contexts from moved m
  ), delivery as (
    insert into webhook_deliveries (tenant_id, id, endpoint_id, event_id, event_created_at, type, sequence, status,
      next_attempt_at, failed_at)
    select m.tenant_id, uuidv7(), p.endpoint_id, m.id, m.created_at, m.type, m.sequence,
      case p.status when 'enabled' then 'pending' else 'skipped' end, case p.status when 'enabled' then now() end,
      case p.status when 'disabled' then now() end
    from moved m cross join lateral generate_series(1, (
      select max(p.slot) from webhook_subscriptions p where p.tenant_id = m.tenant_id)) slot cross join lateral (
      select s.endpoint_id, s.types, s.status, s.until_at from webhook_subscriptions s
      where s.tenant_id = m.tenant_id and s.slot = slot.slot and s.from_at <= m.created_at
      order by s.from_at desc limit 1
    ) p
    where p.until_at > m.created_at and p.types && array['*', split_part(m.type, '.', 1) || '.*', m.type]
    order by m.tenant_id, m.sequence
    returning tenant_id, id, endpoint_id, event_id, sequence, status, created_at, event_created_at
  ), due as (
    insert into webhook_due (tenant_id, endpoint_id, sequence, delivery_id, delivery_created_at, due_at, queued_at,
      trace_context)
    select d.tenant_id, d.endpoint_id, d.sequence, d.id, d.created_at, now(), d.event_created_at,
      (select t.contexts from traced t) ->> d.event_id::text
    from delivery d where d.status = 'pending'
  ), backlog as (
    insert into webhook_backlogs (tenant_id, endpoint_id)
    select distinct d.tenant_id, d.endpoint_id from delivery d order by 1, 2
    on conflict do nothing
  )
  select m.tenant_id, m.events, coalesce(d.deliveries, 0),
    (select p.of_tenant < p.waiting or p.waiting >= p.most_events from picked p
      where p.tenant_id = m.tenant_id limit 1),
    m.traces
  from (
    select m.tenant_id, count(*)::integer as events,
      array_agg(m.trace_context) filter (where m.trace_context is not null) as traces
    from moved m group by 1) m
  left join (select d.tenant_id, count(*)::integer as deliveries from delivery d group by 1) d
    on d.tenant_id = m.tenant_id;
end $$;

-- As in 0022_server_checks.sql, with the entries of the feed.
create or replace function restart_feeds(switch_number bigint, clock timestamptz) returns timestamptz
language plpgsql set timezone = 'UTC' as $$
#variable_conflict use_column
declare
  start constant timestamptz := '2026-01-01 00:00:00+00';
  system_tenant constant uuid := '00000000-0000-7000-8000-000000000000';
  highest bigint;
begin
  -- Waits for the sequencer. The next statement sees what it wrote.
  perform from event_sequences s where s.tenant_id = system_tenant for update;
  with restart as (
    insert into feed_restarts (tenant_id, switch_number, last_sequence_before, next_sequence)
    select t.id, restart_feeds.switch_number, coalesce(s.last_sequence, 0), greatest(coalesce(s.last_sequence, 0) + 1,
      (extract(epoch from greatest(clock_timestamp(), restart_feeds.clock) - start) * 1000000)::bigint)
    from tenants t left join event_sequences s on s.tenant_id = t.id
    where t.id <> system_tenant
      and not exists (
        select from feed_restarts r where r.tenant_id = t.id and r.switch_number = restart_feeds.switch_number)
    order by t.id limit 5000
    returning *
  ), raised as (
    insert into event_sequences as s (tenant_id, last_sequence)
    select r.tenant_id, r.next_sequence from restart r order by r.tenant_id
    on conflict (tenant_id) do update set last_sequence = excluded.last_sequence
  ), event as (
    insert into events (tenant_id, type, subject_id, data, sequence, created_at, sequenced)
    select r.tenant_id, 'feed.restarted', r.id, to_jsonb(r) - 'switch_number', r.next_sequence, r.created_at, true
    from restart r order by r.tenant_id
    returning tenant_id, id, type, sequence, created_at
  ), entry as (
    insert into feed_entries (tenant_id, sequence, event_id, type, created_at)
    select e.tenant_id, e.sequence, e.id, e.type, e.created_at from event e order by e.tenant_id
  ), delivery as (
    insert into webhook_deliveries (tenant_id, id, endpoint_id, event_id, event_created_at, type, sequence, status,
      next_attempt_at, failed_at)
    select e.tenant_id, uuidv7(), p.endpoint_id, e.id, e.created_at, e.type, e.sequence,
      case p.status when 'enabled' then 'pending' else 'skipped' end, case p.status when 'enabled' then now() end,
      case p.status when 'disabled' then now() end
    from event e join webhook_subscriptions p on p.tenant_id = e.tenant_id
    where p.from_at <= e.created_at and p.until_at > e.created_at and p.types && array['*', 'feed.*', e.type]
    order by e.tenant_id, p.endpoint_id
    returning tenant_id, id, endpoint_id, sequence, status, created_at, event_created_at
  ), due as (
    insert into webhook_due (tenant_id, endpoint_id, sequence, delivery_id, delivery_created_at, due_at, queued_at)
    select d.tenant_id, d.endpoint_id, d.sequence, d.id, d.created_at, now(), d.event_created_at
    from delivery d where d.status = 'pending'
  ), backlog as (
    insert into webhook_backlogs (tenant_id, endpoint_id)
    select d.tenant_id, d.endpoint_id from delivery d order by 1, 2
    on conflict do nothing
  )
  select max(r.next_sequence) into highest from restart r;
  return greatest(clock_timestamp(), start + highest * interval '1 microsecond') + interval '1 minute';
end $$;

-- See 0015_settings.sql.
do $$
declare
  each text;
begin
  foreach each in array array[
    'make_next_partition()', 'drop_next_partition(text, integer)', 'sequence_events(integer)'
  ] loop
    execute format('alter function %s set search_path = %I, pg_temp', each, current_schema());
  end loop;
end $$;

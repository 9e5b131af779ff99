-- locks: events
-- An event is written once, into the partition of its week. A narrow row in the outbox waits for the sequencer, which
-- gives the event its position in the feed: an entry with its sequence. `events.sequence` stays null, except for events
-- of restarts. The default of `events.sequenced` decides where an event is written, so this also holds for processes of
-- the previous release. What waits in `unsequenced_events` is moved. The next release drops that partition and its part
-- of `write_subscription`, `move_unsequenced_events`, `sequence_events(integer)` and the column `more`.

-- Events without a position in the feed. The sequencer deletes a row when it writes the entry of the event.
create table event_outbox (
  tenant_id uuid not null,
  created_at timestamptz not null,
  event_id uuid not null,
  type text not null check (length(type) <= 100),
  trace_context text,
  primary key (tenant_id, created_at, event_id)
) with (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
  autovacuum_analyze_scale_factor = 0.05);
alter table event_outbox alter column tenant_id set statistics 10, alter column created_at set statistics 10,
  alter column event_id set statistics 10, alter column type set statistics 10,
  alter column trace_context set statistics 10;

-- With the owner's rights: no role writes the outbox in another way. The event of a restart has its sequence already.
create function add_to_outbox() returns trigger language plpgsql security definer as $$
begin
  if tg_relid <> 'events'::regclass then
    raise exception 'add_to_outbox() may only be a trigger of events' using errcode = 'insufficient_privilege';
  end if;
  insert into event_outbox (tenant_id, created_at, event_id, type, trace_context)
  select n.tenant_id, n.created_at, n.id, n.type, n.trace_context from new_events n
  where n.sequenced and n.sequence is null;
  return null;
end $$;
create trigger events_outbox after insert on events referencing new table as new_events
  for each statement execute function add_to_outbox();

alter table events alter column sequenced set default true;
comment on column events.sequenced is
  'False: in the queue of the previous release. An event that waits in the outbox has true.';

alter function sequence_events(integer) rename to move_unsequenced_events;

-- Assigns the events that were created at or after `since` their next sequences, round robin over tenants, and creates
-- their deliveries: about `most` rows in all. Returns the numbers of events and deliveries of each tenant, whether the
-- tenant has more events, and the trace contexts of its events; and a row without a tenant if no such event is left.
-- Events of the previous release come first, in calls of their own.
create function sequence_events(most integer, since timestamptz)
returns table (tenant_id uuid, events integer, deliveries integer, more boolean, traces text[])
language plpgsql security definer set enable_seqscan = off as $$
#variable_conflict use_column
begin
  perform from unsequenced_events u order by u.tenant_id limit 1;
  if found then
    return query select * from move_unsequenced_events(most);
    return;
  end if;
  -- The lock is a write, and idle workers call this function all the time.
  perform from event_outbox o where o.created_at >= since order by o.tenant_id limit 1;
  if not found then
    return query select null::uuid, 0, 0, false, null::text[];
    return;
  end if;
  -- Another process assigns sequences.
  perform from event_sequences s where s.tenant_id = '00000000-0000-7000-8000-000000000000' for update skip locked;
  if not found then return; end if;
  return query
  with recursive tenant as (
    (select o.tenant_id from event_outbox o where o.created_at >= since order by o.tenant_id limit 1)
    union all
    select next.tenant_id from tenant t cross join lateral (
      select o.tenant_id from event_outbox o where o.tenant_id > t.tenant_id and o.created_at >= since
      order by o.tenant_id limit 1) next
  ), share as (
    -- For each tenant: the number of rows that one event creates, and the maximum number of events.
    select s.*, greatest(1, 100 / s.cost, most / (s.cost * count(*) over ())) as most_events from (
      select t.tenant_id, 1 + (
        select count(*) from webhook_endpoints p where p.tenant_id = t.tenant_id and p.deleted_at is null) as cost
      from tenant t offset 0
    ) s
  ), waiting as (
    select o.*, s.cost, s.most_events,
      row_number() over (partition by o.tenant_id order by o.created_at, o.event_id) as nth
    from share s cross join lateral (
      select o.ctid as place, o.tenant_id, o.created_at, o.event_id, o.type, o.trace_context from event_outbox o
      where o.tenant_id = s.tenant_id and o.created_at >= since
      order by o.created_at, o.event_id limit s.most_events
    ) o
  ), ranked as (
    select w.*, count(*) over (partition by w.tenant_id) as waiting,
      sum(w.cost) over (order by w.nth, w.tenant_id) as total
    from waiting w
  ), picked as materialized (
    select r.*, count(*) over (partition by r.tenant_id) as of_tenant from ranked r where r.total - r.cost < most
  ), advanced as (
    insert into event_sequences as s (tenant_id, last_sequence)
    select p.tenant_id, p.of_tenant from picked p where p.nth = 1 order by p.tenant_id
    on conflict (tenant_id) do update set last_sequence = s.last_sequence + excluded.last_sequence
    returning s.tenant_id, s.last_sequence
  ), last as materialized (
    select jsonb_object_agg(a.tenant_id, a.last_sequence) as sequences from advanced a
  ), numbered as materialized (
    select p.tenant_id, p.event_id, p.type, p.created_at, p.trace_context,
      ((select l.sequences from last l) ->> p.tenant_id::text)::bigint - p.of_tenant + p.nth as sequence
    from picked p
  ), deleted as (
    -- With the statistics of an empty table, a join would read all rows for each event. A row keeps its place: rows are
    -- not updated, and only the process with the lock deletes them.
    delete from event_outbox o where o.ctid = any(array(select p.place from picked p))
  ), entry as (
    insert into feed_entries (tenant_id, sequence, event_id, type, created_at)
    select n.tenant_id, n.sequence, n.event_id, n.type, n.created_at from numbered n order by n.tenant_id, n.sequence
  ), traced as materialized (
    select jsonb_object_agg(n.event_id, n.trace_context) filter (where n.trace_context is not null) as contexts
    from numbered n
  ), delivery as (
    insert into webhook_deliveries (tenant_id, id, endpoint_id, event_id, event_created_at, type, sequence, status,
      next_attempt_at, failed_at)
    select n.tenant_id, uuidv7(), p.endpoint_id, n.event_id, n.created_at, n.type, n.sequence,
      case p.status when 'enabled' then 'pending' else 'skipped' end, case p.status when 'enabled' then now() end,
      case p.status when 'disabled' then now() end
    from numbered n cross join lateral generate_series(1, (
      select max(p.slot) from webhook_subscriptions p where p.tenant_id = n.tenant_id)) slot cross join lateral (
      select s.endpoint_id, s.types, s.status, s.until_at from webhook_subscriptions s
      where s.tenant_id = n.tenant_id and s.slot = slot.slot and s.from_at <= n.created_at
      order by s.from_at desc limit 1
    ) p
    where p.until_at > n.created_at and p.types && array['*', split_part(n.type, '.', 1) || '.*', n.type]
    order by n.tenant_id, n.sequence
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
  select e.tenant_id, e.events, coalesce(d.deliveries, 0), e.more, e.traces
  from (
    select p.tenant_id, count(*)::integer as events,
      bool_or(p.of_tenant < p.waiting or p.waiting >= p.most_events) as more,
      array_agg(p.trace_context) filter (where p.trace_context is not null) as traces
    from picked p group by 1) e
  left join (select d.tenant_id, count(*)::integer as deliveries from delivery d group by 1) d
    on d.tenant_id = e.tenant_id
  union all
  select null, 0, 0, false, null
  where not exists (select from ranked r where r.total - r.cost >= most or r.waiting >= r.most_events);
end $$;

-- As in 0031_feed_entries.sql, and nothing is dropped while an old event waits.
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
  -- An event without a position in the feed stays.
  if kind = 'events' and exists (select from event_outbox o where o.created_at < now() - days * interval '1 day') then
    return null;
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

-- As in 0011_events.sql, and events wait in the outbox.
create or replace function write_subscription() returns trigger language plpgsql security definer as $$
declare
  changes_at timestamptz := clock_timestamp();
begin
  if tg_relid <> 'webhook_endpoints'::regclass then
    raise exception 'write_subscription() may only be a trigger of webhook_endpoints'
      using errcode = 'insufficient_privilege';
  end if;
  if tg_op = 'UPDATE' then
    if (new.types, new.status, new.deleted_at is null)
      is not distinct from (old.types, old.status, old.deleted_at is null) then
      return new;
    end if;
    -- Even if the clock was set back, no two subscriptions of an endpoint begin at the same time.
    update webhook_subscriptions s set until_at = greatest(changes_at, s.from_at)
    where s.tenant_id = new.tenant_id and s.endpoint_id = new.id and s.until_at = 'infinity'
    returning s.until_at into changes_at;
  else
    changes_at := new.enabled_at;
  end if;
  -- Deletes subscriptions that no event waits for, and those that began later because the clock was set back. A
  -- slot retains at most 1,000.
  delete from webhook_subscriptions s
  where s.tenant_id = new.tenant_id and s.slot = new.slot and s.until_at < 'infinity' and (
    s.from_at >= changes_at or s.until_at < least(clock_timestamp() - interval '1 hour', (
      select min(e.created_at) from (
        select u.created_at from unsequenced_events u where u.tenant_id = new.tenant_id
        union all
        select o.created_at from event_outbox o where o.tenant_id = new.tenant_id) e))
    or s.from_at <= (
      select k.from_at from webhook_subscriptions k where k.tenant_id = new.tenant_id and k.slot = new.slot
      order by k.from_at desc offset 999 limit 1));
  if new.deleted_at is null then
    insert into webhook_subscriptions as s (tenant_id, endpoint_id, slot, types, status, from_at)
    values (new.tenant_id, new.id, new.slot, new.types, new.status, coalesce(changes_at, clock_timestamp()))
    on conflict (tenant_id, endpoint_id, from_at)
      do update set types = excluded.types, status = excluded.status, until_at = 'infinity';
  end if;
  return new;
end $$;

-- For processes of the previous release.
create function sequence_events(most integer)
returns table (tenant_id uuid, events integer, deliveries integer, more boolean, traces text[])
language sql security definer as $$
  select * from sequence_events(most, '-infinity') s where s.tenant_id is not null $$;

-- See 0015_settings.sql.
do $$
declare
  each text;
begin
  foreach each in array array[
    'add_to_outbox()', 'sequence_events(integer, timestamptz)', 'sequence_events(integer)',
    'drop_next_partition(text, integer)', 'write_subscription()'
  ] loop
    execute format('alter function %s set search_path = %I, pg_temp', each, current_schema());
    execute format('revoke execute on function %s from public', each);
  end loop;
end $$;

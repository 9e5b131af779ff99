-- Plans of what is done with events hold whatever a sample has, and whenever it was taken.

-- The feed of a type that no sample of a partition has was read in the order of all sequences: planned as if there were one type. How
-- many types there are is said here, so the sample of events is as small as any other.
create or replace function make_next_partition() returns text language plpgsql as $$
declare
  each record;
begin
  for each in
    select parent.name as parent, week as from_time, week + interval '7 days' as to_time,
      parent.name || to_char(week, '_YYYYMMDD') as name
    from unnest(array['sequenced_events', 'webhook_deliveries', 'job_history', 'job_attempt_history', 'notification_history']) parent(name)
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
        select string_agg(format('alter table %I alter column %I set statistics 10', each.name, attname), ';') from pg_attribute
        where attrelid = each.name::regclass and attnum > 0 and not attisdropped);
      if each.parent = 'sequenced_events' then
        execute format('alter table %I alter column type set (n_distinct = 100)', each.name);
      end if;
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

-- A function that is replaced keeps its owner and who may call it, not its settings.
alter function make_next_partition() set timezone = 'UTC';
alter function make_next_partition() set lock_timeout = '50ms';
do $$
declare
  each record;
begin
  execute format('alter function make_next_partition() security definer set search_path = %I, pg_temp', current_schema());
  -- Else an older worker could add one meanwhile that is missed.
  lock table sequenced_events in share update exclusive mode;
  for each in
    select i.inhrelid::regclass as name from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = 'sequenced_events'::regclass and c.relkind = 'r'
  loop
    execute format('alter table %s alter column type set (n_distinct = 100)', each.name);
    execute format('alter table %s alter column sequenced set statistics 10', each.name);
    -- A week that is over is never sampled again by itself.
    execute format('analyze %s (type)', each.name);
  end loop;
end $$;

-- Gives events their next sequences, by turns of the tenants, and makes their deliveries: about `most` rows in all. Answers how many events
-- and deliveries each tenant got, and whether it has more; nothing while somebody else does it. The lock comes first: the statement
-- after it sees all that its last holder did. A delivery goes to those who subscribed when its event happened, and waits since then: so what
-- waits for an endpoint that was disabled meanwhile, and enabled again, is not sent. Events are moved without a join: planned after a
-- sample of a moment in which none waited, a join read all that waited again for each of them, a second of a processor for two hundred.
create unique index unsequenced_events_id on unsequenced_events (id);
create or replace function sequence_events(most integer) returns table (tenant_id uuid, events integer, deliveries integer, more boolean)
language plpgsql as $$
#variable_conflict use_column
begin
  perform from event_sequences s where s.tenant_id = '00000000-0000-7000-8000-000000000000' for update skip locked;
  if not found then return; end if;
  return query
  with recursive tenant as (
    (select u.tenant_id from unsequenced_events u order by u.tenant_id limit 1)
    union all
    select next.tenant_id from tenant t cross join lateral (
      select u.tenant_id from unsequenced_events u where u.tenant_id > t.tenant_id order by u.tenant_id limit 1) next
  ), share as (
    -- The rows that an event of the tenant makes at most, and how many of its events are looked at.
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
  ), turn as (
    select w.*, count(*) over (partition by w.tenant_id) as waiting, sum(w.cost) over (order by w.nth, w.tenant_id) as total
    from waiting w
  ), picked as materialized (
    select t.*, count(*) over (partition by t.tenant_id) as of_tenant from turn t where t.total - t.cost < most
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
    returning e.tenant_id, e.id, e.type, e.sequence, e.created_at
  ), delivery as (
    insert into webhook_deliveries (tenant_id, id, endpoint_id, event_id, event_created_at, type, sequence, status, next_attempt_at, failed_at)
    select m.tenant_id, uuidv7(), p.endpoint_id, m.id, m.created_at, m.type, m.sequence,
      case p.status when 'enabled' then 'pending' else 'skipped' end, case p.status when 'enabled' then now() end,
      case p.status when 'disabled' then now() end
    from moved m cross join lateral generate_series(1, (
      select max(p.slot) from webhook_subscriptions p where p.tenant_id = m.tenant_id)) slot cross join lateral (
      select s.endpoint_id, s.types, s.status, s.until_at from webhook_subscriptions s
      where s.tenant_id = m.tenant_id and s.slot = slot.slot and s.from_at <= m.created_at order by s.from_at desc limit 1
    ) p
    where p.until_at > m.created_at and p.types && array['*', split_part(m.type, '.', 1) || '.*', m.type]
    order by m.tenant_id, m.sequence
    returning tenant_id, id, endpoint_id, sequence, status, created_at, event_created_at
  ), due as (
    insert into webhook_due (tenant_id, endpoint_id, sequence, delivery_id, delivery_created_at, due_at, queued_at)
    select d.tenant_id, d.endpoint_id, d.sequence, d.id, d.created_at, now(), d.event_created_at from delivery d where d.status = 'pending'
  ), line as (
    insert into webhook_lines (tenant_id, endpoint_id) select distinct d.tenant_id, d.endpoint_id from delivery d order by 1, 2
    on conflict do nothing
  )
  select m.tenant_id, m.events, coalesce(d.deliveries, 0),
    (select p.of_tenant < p.waiting or p.waiting >= p.most_events from picked p where p.tenant_id = m.tenant_id limit 1)
  from (select m.tenant_id, count(*)::integer as events from moved m group by 1) m
  left join (select d.tenant_id, count(*)::integer as deliveries from delivery d group by 1) d on d.tenant_id = m.tenant_id;
end $$;
-- It was made anew, so it has lost this.
do $$ begin
  execute format('alter function sequence_events(integer) security definer set search_path = %I, pg_temp', current_schema());
end $$;
-- Ids are looked up by their index, never compared with all that waits.
alter function sequence_events(integer) set enable_seqscan = off;

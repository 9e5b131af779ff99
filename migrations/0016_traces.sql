-- Traces: the W3C `traceparent` of the span that a job or an event continues; null if its request was not sampled.
-- Only columns without a default and constraints that check no existing row are added, so each lock is held for a
-- moment.
-- locks: jobs, job_history, events, webhook_due

alter table jobs add column trace_context text, add constraint jobs_trace_context
  check (trace_context ~ '^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$') not valid;
alter table job_history add column trace_context text;
-- An event with another text would stop the deliveries of all tenants, because `webhook_due` and jobs take it over.
alter table events add column trace_context text, add constraint events_trace_context
  check (trace_context ~ '^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$') not valid;
alter table webhook_due add column trace_context text;

-- As for all columns: see 0015_settings.sql.
do $$
declare
  each record;
begin
  for each in
    select a.attrelid::regclass as name from pg_attribute a join pg_class c on c.oid = a.attrelid
    where c.relnamespace = current_schema()::regnamespace and c.relkind = 'r' and a.attname = 'trace_context'
  loop
    execute format('alter table %s alter column trace_context set statistics 10', each.name);
  end loop;
end $$;

drop function sequence_events(integer);
-- Assigns events their next sequences, round robin over tenants, and creates their deliveries: about `most`
-- rows in all. Returns the numbers of events and deliveries of each tenant, whether the tenant has more events, and the
-- trace contexts of its traced events; returns nothing while another process runs this function. Runs with the owner's
-- rights, because no process may change an event otherwise.
--
-- A separate statement takes the lock, so that the next statement sees what the previous holder wrote. An event is
-- delivered to the endpoints that subscribed when it was created. `queued_at` is also the time at which the event was
-- created, so nothing is sent to an endpoint that was disabled and enabled again in the meantime.
--
-- Events are moved without a join. A join that was planned while no event waited read all waiting events again for each
-- event: one second of processor time for two hundred events. Without sequential scans, ids are looked up by their
-- index.
create function sequence_events(most integer)
returns table (tenant_id uuid, events integer, deliveries integer, more boolean, traces text[])
language plpgsql security definer set enable_seqscan = off as $$
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

-- See 0015_settings.sql. The rights are those of roles.sql, which runs later: until then, workers go on.
revoke execute on function sequence_events(integer) from public;
do $$
begin
  execute format('alter function sequence_events(integer) set search_path = %I, pg_temp', current_schema());
  if to_regrole('sluice_worker') is not null then
    grant execute on function sequence_events(integer) to sluice_worker;
  end if;
end $$;

-- Whose SMS a tenant may send from, and what an endpoint subscribed to is found by its slot.

-- The numbers, messaging services and names of which a tenant may be the sender of SMS, the first one by default; null: any, and that of the
-- installation by default.
alter table tenants add column sms_senders text[] check (cardinality(sms_senders) <= 100);

-- A slot has one endpoint at a time, and so one subscription: the latest of before an event, however many came later. A tenant has 20.
alter table webhook_subscriptions add column slot smallint;
update webhook_subscriptions s set slot = p.slot from webhook_endpoints p where p.tenant_id = s.tenant_id and p.id = s.endpoint_id;
alter table webhook_subscriptions alter column slot set not null, alter column slot set statistics 10;
create index webhook_subscriptions_slot on webhook_subscriptions (tenant_id, slot, from_at desc);
drop index webhook_subscriptions_until;

-- With the owner's rights. A change is written before its own event is.
create or replace function write_subscription() returns trigger language plpgsql as $$
declare
  changes_at timestamptz := clock_timestamp();
begin
  if tg_relid <> 'webhook_endpoints'::regclass then
    raise exception 'write_subscription() serves webhook_endpoints alone' using errcode = 'insufficient_privilege';
  end if;
  if tg_op = 'UPDATE' then
    if (new.types, new.status, new.deleted_at is null) is not distinct from (old.types, old.status, old.deleted_at is null) then
      return new;
    end if;
    -- Also where the clock was set back, no two of an endpoint are of one time.
    update webhook_subscriptions s set until_at = greatest(changes_at, s.from_at)
    where s.tenant_id = new.tenant_id and s.endpoint_id = new.id and s.until_at = 'infinity'
    returning s.until_at into changes_at;
  else
    changes_at := new.enabled_at;
  end if;
  -- What no event waits for any more goes, and so does what a clock that was set back made later than this; of a slot a thousand stay at most.
  delete from webhook_subscriptions s
  where s.tenant_id = new.tenant_id and s.slot = new.slot and s.until_at < 'infinity' and (
    s.from_at >= changes_at or s.until_at < least(clock_timestamp() - interval '1 hour', (
      select min(u.created_at) from unsequenced_events u where u.tenant_id = new.tenant_id))
    or s.from_at <= (
      select k.from_at from webhook_subscriptions k where k.tenant_id = new.tenant_id and k.slot = new.slot
      order by k.from_at desc offset 999 limit 1));
  if new.deleted_at is null then
    insert into webhook_subscriptions as s (tenant_id, endpoint_id, slot, types, status, from_at)
    values (new.tenant_id, new.id, new.slot, new.types, new.status, coalesce(changes_at, clock_timestamp()))
    on conflict (tenant_id, endpoint_id, from_at) do update set types = excluded.types, status = excluded.status, until_at = 'infinity';
  end if;
  return new;
end $$;
do $$ begin
  execute format('alter function write_subscription() security definer set search_path = %I, pg_temp', current_schema());
end $$;

-- Gives events their next sequences, by turns of the tenants, and makes their deliveries: about `most` rows in all. Answers how many events
-- and deliveries each tenant got, and whether it has more; nothing while somebody else does it. The lock comes first: the statement
-- after it sees all that its last holder did. A delivery goes to those who subscribed when its event happened, and waits since then: so what
-- waits for an endpoint that was disabled meanwhile, and enabled again, is not sent.
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
        select count(*) from webhook_endpoints p where p.tenant_id = t.tenant_id and p.deleted_at is null) as cost, (
        select max(p.slot) from webhook_subscriptions p where p.tenant_id = t.tenant_id) as slots
      from tenant t
    ) s
  ), waiting as (
    select u.*, s.cost, s.slots, s.most_events, row_number() over (partition by u.tenant_id order by u.created_at, u.id) as nth
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
  ), moved as (
    update events e set sequenced = true, sequence = a.last_sequence - p.of_tenant + p.nth
    from picked p join advanced a on a.tenant_id = p.tenant_id
    where not e.sequenced and e.tenant_id = p.tenant_id and e.created_at = p.created_at and e.id = p.id
    returning e.tenant_id, e.id, e.type, e.sequence, e.created_at, p.slots
  ), delivery as (
    insert into webhook_deliveries (tenant_id, id, endpoint_id, event_id, event_created_at, type, sequence, status, next_attempt_at, failed_at)
    select m.tenant_id, uuidv7(), p.endpoint_id, m.id, m.created_at, m.type, m.sequence,
      case p.status when 'enabled' then 'pending' else 'skipped' end, case p.status when 'enabled' then now() end,
      case p.status when 'disabled' then now() end
    from moved m cross join lateral generate_series(1, m.slots) slot cross join lateral (
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

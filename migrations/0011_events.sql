-- Events, the feed with a sequence for each tenant, webhook endpoints, and deliveries to them.

-- An event is written without a sequence, into a small partition. The sequencer moves it to a weekly partition,
-- with the next sequence of its tenant. So the writing step maintains few indexes, and a transaction that commits late
-- cannot get a lower sequence than an event that readers have already seen.
create table events (
  tenant_id uuid not null,
  id uuid not null default gen_random_uuid(),
  type text not null,
  subject_id uuid not null,
  data jsonb not null,
  sequence bigint,
  created_at timestamptz not null default clock_timestamp(),
  sequenced boolean not null default false
) partition by list (sequenced);

create table unsequenced_events partition of events for values in (false) with (fillfactor = 90,
  autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000, autovacuum_analyze_scale_factor = 0.05);
-- The order in which events enter the feed.
create index unsequenced_events_order on unsequenced_events (tenant_id, created_at, id);
create index unsequenced_events_of_subject on unsequenced_events (tenant_id, subject_id);
create unique index unsequenced_events_id on unsequenced_events (id);

create table sequenced_events partition of events (sequenced default true,
  constraint events_pkey primary key (tenant_id, id, created_at)
) for values in (true) partition by range (created_at);
-- The table is append-only, so recent rows are adjacent.
create index events_created_at on sequenced_events using brin (created_at);
-- The order in which the events of a row are read and erased.
create index events_of_subject on sequenced_events (tenant_id, subject_id, created_at, id);
create index sequenced_events_sequence on sequenced_events (tenant_id, sequence) where sequence is not null;
create index sequenced_events_type on sequenced_events (tenant_id, type, sequence) where sequence is not null;
create table events_default partition of sequenced_events default;

-- The last sequence of each tenant's feed. The process that locks the row of the system tenant is the sequencer.
create table event_sequences (
  tenant_id uuid primary key,
  last_sequence bigint not null check (last_sequence >= 0)
) with (fillfactor = 50);
insert into event_sequences (tenant_id, last_sequence) values ('00000000-0000-7000-8000-000000000000', 0);

create table webhook_endpoints (
  tenant_id uuid not null,
  id uuid not null,
  idempotency_key text check (length(idempotency_key) between 1 and 255),
  -- The endpoint's slot in its tenant; the number of slots limits the number of endpoints.
  slot smallint not null check (slot between 1 and 20),
  url text not null check (length(url) <= 2048),
  -- `*`, `<resource>.*` or a type.
  types text[] not null check (cardinality(types) > 0),
  description text,
  -- The tenant's own headers, sealed.
  headers text,
  -- The sealed secrets, newest first, each with the time at which it stops signing.
  secrets jsonb not null,
  ordered boolean not null,
  max_in_flight smallint not null check (max_in_flight between 1 and 100),
  rate_per_s smallint check (rate_per_s between 1 and 1000),
  status text not null default 'enabled' check (status in ('enabled', 'disabled')),
  disabled_reason text check (disabled_reason in ('gone', 'failing', 'manual')),
  -- When the tenant was notified by email that the endpoint was disabled automatically.
  notified_at timestamptz,
  -- Since when all attempts have failed; null if the last one succeeded.
  failing_since timestamptz,
  -- Deliveries that were queued before `enabled_at`, and recoveries that were requested before `disabled_at`, are not
  -- sent.
  enabled_at timestamptz not null default clock_timestamp(),
  disabled_at timestamptz,
  -- Whether the endpoint's backlog may contain deliveries that are not sent.
  stale boolean not null default false,
  metadata jsonb not null default '{}',
  deleted_at timestamptz,
  created_at timestamptz not null default unique_now(),
  updated_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, id),
  constraint webhook_endpoints_created_at unique (tenant_id, created_at),
  constraint webhook_endpoints_idempotency unique (tenant_id, idempotency_key),
  constraint webhook_endpoints_disabled check ((status = 'disabled') = (disabled_reason is not null))
) with (fillfactor = 70);
create unique index webhook_endpoints_slot on webhook_endpoints (tenant_id, slot) where deleted_at is null;
create index webhook_endpoints_unnotified on webhook_endpoints (updated_at)
  where disabled_reason in ('gone', 'failing') and notified_at is null and deleted_at is null;

-- After an endpoint is enabled or disabled, its backlog may contain deliveries that are not sent.
create function mark_stale() returns trigger language plpgsql as $$
begin
  if (new.status, new.deleted_at) is distinct from (old.status, old.deleted_at) then
    new.stale := true;
    if new.status = 'disabled' and old.status = 'enabled' then new.disabled_at := clock_timestamp(); end if;
  end if;
  return new;
end $$;
create trigger webhook_endpoints_stale before update of status, deleted_at on webhook_endpoints
  for each row execute function mark_stale();

-- The subscription of an endpoint between two changes of it. An event goes to the endpoints that subscribed at
-- its `created_at`, whenever it gets its sequence. An ended subscription is retained for an hour, and while an
-- older event waits for its sequence.
create table webhook_subscriptions (
  tenant_id uuid not null,
  endpoint_id uuid not null,
  -- A slot has one endpoint at a time, and so one subscription.
  slot smallint not null,
  types text[] not null,
  status text not null,
  from_at timestamptz not null,
  until_at timestamptz not null default 'infinity',
  primary key (tenant_id, endpoint_id, from_at),
  foreign key (tenant_id, endpoint_id) references webhook_endpoints (tenant_id, id) on delete cascade
) with (fillfactor = 70);
-- Finds the latest subscription of a slot before an event, even if many followed.
create index webhook_subscriptions_slot on webhook_subscriptions (tenant_id, slot, from_at desc);

-- Writes the subscription of a created or changed endpoint. Runs with the owner's rights. The change happens before its
-- own event, so the new subscription receives the event.
create function write_subscription() returns trigger language plpgsql security definer as $$
declare
  changes_at timestamptz := clock_timestamp();
begin
  if tg_relid <> 'webhook_endpoints'::regclass then
    raise exception 'write_subscription() may only be a trigger of webhook_endpoints' using errcode = 'insufficient_privilege';
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
      select min(u.created_at) from unsequenced_events u where u.tenant_id = new.tenant_id))
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
create trigger webhook_endpoints_subscribe after insert on webhook_endpoints
  for each row execute function write_subscription();
create trigger webhook_endpoints_subscription before update of types, status, deleted_at on webhook_endpoints
  for each row execute function write_subscription();

-- One event for one endpoint, with the retention of events.
create table webhook_deliveries (
  tenant_id uuid not null,
  id uuid not null,
  endpoint_id uuid not null,
  event_id uuid not null,
  event_created_at timestamptz not null,
  type text not null,
  -- Null for a test.
  sequence bigint,
  -- The data of a test.
  sample jsonb,
  status text not null check (status in ('pending', 'delivered', 'failed', 'exhausted', 'skipped')),
  -- `attempts`: the number of attempts except replays. `step`: the number of finished steps of the retry schedule; a
  -- recovery sets it to 0.
  attempts integer not null default 0,
  step smallint not null default 0,
  next_attempt_at timestamptz,
  last_status_code smallint,
  last_error text,
  delivered_at timestamptz,
  -- When the delivery first failed, or when it was skipped.
  failed_at timestamptz,
  attempts_log jsonb not null default '[]',
  -- Whether the excerpts of the responses were erased with the data of the event, which a response may repeat. After
  -- that no excerpt is stored: a running attempt may have sent the data before.
  excerpts_erased boolean not null default false,
  created_at timestamptz not null default unique_now(),
  updated_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, id, created_at),
  constraint webhook_deliveries_delivered check ((status = 'delivered') = (delivered_at is not null)),
  constraint webhook_deliveries_next check ((next_attempt_at is not null) <= (status = 'pending'))
) partition by range (created_at);
create index webhook_deliveries_of_endpoint on webhook_deliveries (tenant_id, endpoint_id, created_at);
create index webhook_deliveries_of_event on webhook_deliveries (tenant_id, event_id);
create index webhook_deliveries_failed on webhook_deliveries (tenant_id, endpoint_id, created_at)
  where failed_at is not null;
create table webhook_deliveries_default partition of webhook_deliveries default;

-- One row for each endpoint. A process that claims deliveries from the endpoint's backlog locks this row and not the
-- endpoint's, so that no other statement waits for it.
create table webhook_backlogs (
  tenant_id uuid not null,
  endpoint_id uuid not null,
  -- The earliest time of the next send, if the endpoint's rate is limited.
  next_send_at timestamptz not null default '-infinity',
  primary key (tenant_id, endpoint_id)
) with (fillfactor = 50);

-- The backlogs of endpoints: deliveries that wait for an attempt. A row is deleted when a job begins to send its
-- delivery.
create table webhook_due (
  tenant_id uuid not null,
  endpoint_id uuid not null,
  sequence bigint not null,
  delivery_id uuid not null,
  delivery_created_at timestamptz not null,
  due_at timestamptz not null,
  -- When the event of the delivery was created. In a recovery, which also sends while the endpoint is disabled: when
  -- the recovery was requested.
  queued_at timestamptz not null,
  recovery_id uuid,
  primary key (tenant_id, endpoint_id, sequence, delivery_id)
) with (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
  autovacuum_analyze_scale_factor = 0.05);
create index webhook_due_at on webhook_due (tenant_id, endpoint_id, due_at, sequence);
create index webhook_due_of_recovery on webhook_due (tenant_id, recovery_id) where recovery_id is not null;

-- Requests to send the failed deliveries of a period again.
create table webhook_recoveries (
  tenant_id uuid not null,
  id uuid not null,
  endpoint_id uuid not null,
  since timestamptz not null,
  until timestamptz not null,
  status text not null default 'pending' check (status in ('pending', 'running', 'completed')),
  -- The number of deliveries found so far, and the number of those that were dropped. The others were sent,
  -- unless they are queued or in progress.
  found integer not null default 0,
  dropped integer not null default 0,
  requested_at timestamptz not null default clock_timestamp(),
  -- The creation time of the last scanned delivery; null after all were scanned.
  after_at timestamptz default '-infinity',
  created_at timestamptz not null default unique_now(),
  updated_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, id)
) with (fillfactor = 70);
create index webhook_recoveries_open on webhook_recoveries (updated_at) where status <> 'completed';
create index webhook_recoveries_of_endpoint on webhook_recoveries (tenant_id, endpoint_id) where status <> 'completed';

-- The outcomes of an endpoint's deliveries, by hour. `bucket`: the logarithm to the base 1.1 of the duration of the
-- successful attempt in ms; -1: deliveries that ended without success; -2: failed attempts. Counts are spread over
-- several values of `shard`, so that writers do not wait for each other.
create table webhook_stats (
  tenant_id uuid not null,
  endpoint_id uuid not null,
  hour timestamptz not null,
  bucket smallint not null,
  shard smallint not null,
  count bigint not null,
  last_at timestamptz not null,
  primary key (tenant_id, endpoint_id, hour, bucket, shard)
) with (fillfactor = 50);
create index webhook_stats_hour on webhook_stats (hour);

-- Assigns events their next sequences, round robin over tenants, and creates their deliveries: about `most`
-- rows in all. Returns the numbers of events and deliveries of each tenant, and whether the tenant has more events;
-- returns nothing while another process runs this function. Runs with the owner's rights, because no process may change
-- an event otherwise.
--
-- A separate statement takes the lock, so that the next statement sees what the previous holder wrote. An event is
-- delivered to the endpoints that subscribed when it was created. `queued_at` is also the time at which the event was
-- created, so nothing is sent to an endpoint that was disabled and enabled again in the meantime.
--
-- Events are moved without a join. A join that was planned while no event waited read all waiting events again for each
-- event: one second of processor time for two hundred events. Without sequential scans, ids are looked up by their
-- index.
create function sequence_events(most integer)
returns table (tenant_id uuid, events integer, deliveries integer, more boolean)
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
    returning e.tenant_id, e.id, e.type, e.sequence, e.created_at
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
    returning tenant_id, id, endpoint_id, sequence, status, created_at, event_created_at
  ), due as (
    insert into webhook_due (tenant_id, endpoint_id, sequence, delivery_id, delivery_created_at, due_at, queued_at)
    select d.tenant_id, d.endpoint_id, d.sequence, d.id, d.created_at, now(), d.event_created_at
    from delivery d where d.status = 'pending'
  ), backlog as (
    insert into webhook_backlogs (tenant_id, endpoint_id)
    select distinct d.tenant_id, d.endpoint_id from delivery d order by 1, 2
    on conflict do nothing
  )
  select m.tenant_id, m.events, coalesce(d.deliveries, 0),
    (select p.of_tenant < p.waiting or p.waiting >= p.most_events from picked p where p.tenant_id = m.tenant_id limit 1)
  from (select m.tenant_id, count(*)::integer as events from moved m group by 1) m
  left join (select d.tenant_id, count(*)::integer as deliveries from delivery d group by 1) d
    on d.tenant_id = m.tenant_id;
end $$;

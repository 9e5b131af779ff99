-- Events out: the feed with a sequence for each tenant, endpoints that receive events, and deliveries to them.

-- An event is written without a sequence, into a small partition of its own. The sequencer moves it: to a partition by week, with the
-- next sequence of its tenant. So the writing step keeps few indexes, and no transaction that commits late can fill in a lower number.
-- Events from before have no sequence and are not in the feed.
alter table events rename to sequenced_events;
alter table sequenced_events add column sequenced boolean not null default true;
create table events (like sequenced_events including defaults) partition by list (sequenced);
alter table events alter column sequenced set default false;
create table unsequenced_events (like events including defaults) with (fillfactor = 90,
  autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000, autovacuum_analyze_scale_factor = 0.05);
-- In the order in which they become part of the feed.
create index unsequenced_events_order on unsequenced_events (tenant_id, created_at, id);
create index unsequenced_events_of_subject on unsequenced_events (tenant_id, subject_id);
create index sequenced_events_sequence on sequenced_events (tenant_id, sequence) where sequence is not null;
create index sequenced_events_type on sequenced_events (tenant_id, type, sequence) where sequence is not null;
alter table events attach partition unsequenced_events for values in (false);
alter table events attach partition sequenced_events for values in (true);

-- The last sequence of each tenant's feed. Whoever holds the lock of the row of the system's own tenant is the sequencer.
create table event_sequences (
  tenant_id uuid primary key,
  last_sequence bigint not null check (last_sequence >= 0)
) with (fillfactor = 50);
insert into event_sequences (tenant_id, last_sequence) values ('00000000-0000-7000-8000-000000000000', 0);

-- Where a tenant's events are sent to.
create table webhook_endpoints (
  tenant_id uuid not null,
  id uuid not null,
  idempotency_key text check (length(idempotency_key) between 1 and 255),
  -- Which of the tenant's places it takes: so there are never more of them.
  slot smallint not null check (slot between 1 and 20),
  url text not null check (length(url) <= 2048),
  -- `*`, `<noun>.*` or a type.
  types text[] not null check (cardinality(types) > 0),
  description text,
  -- Headers of the tenant's own, and the secrets, newest first, each with when it stops signing: sealed.
  headers text,
  secrets jsonb not null,
  ordered boolean not null,
  max_in_flight smallint not null check (max_in_flight between 1 and 100),
  rate_per_s smallint check (rate_per_s between 1 and 1000),
  status text not null default 'enabled' check (status in ('enabled', 'disabled')),
  disabled_reason text check (disabled_reason in ('gone', 'failing', 'manual')),
  -- When its people were told of that by email, where it was not they who did it.
  told_at timestamptz,
  -- Since its attempts only fail; null while they do not.
  failing_since timestamptz,
  -- What came into its line before it was enabled, or a recovery that was asked for before it was disabled, is not sent.
  enabled_at timestamptz not null default clock_timestamp(),
  disabled_at timestamptz,
  -- Whether there may be such in its line.
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
create index webhook_endpoints_untold on webhook_endpoints (updated_at)
  where disabled_reason in ('gone', 'failing') and told_at is null and deleted_at is null;

-- Whoever turns an endpoint on or off: what waits in its line is looked through.
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

-- One event for one endpoint. Kept as long as events.
create table webhook_deliveries (
  tenant_id uuid not null,
  id uuid not null,
  endpoint_id uuid not null,
  event_id uuid not null,
  event_created_at timestamptz not null,
  type text not null,
  -- Null: a test.
  sequence bigint,
  -- What a test says.
  sample jsonb,
  status text not null check (status in ('pending', 'delivered', 'failed', 'exhausted', 'skipped')),
  -- Scheduled ones, which a replay is not; and how many of them its schedule has behind it, which a recovery begins anew.
  attempts integer not null default 0,
  step smallint not null default 0,
  next_attempt_at timestamptz,
  last_status_code smallint,
  last_error text,
  delivered_at timestamptz,
  -- Its first failure, or when it was skipped.
  failed_at timestamptz,
  attempts_log jsonb not null default '[]',
  created_at timestamptz not null default unique_now(),
  updated_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, id, created_at),
  constraint webhook_deliveries_delivered check ((status = 'delivered') = (delivered_at is not null)),
  constraint webhook_deliveries_next check ((next_attempt_at is not null) <= (status = 'pending'))
) partition by range (created_at);
create index webhook_deliveries_of_endpoint on webhook_deliveries (tenant_id, endpoint_id, created_at);
create index webhook_deliveries_of_event on webhook_deliveries (tenant_id, event_id);
create index webhook_deliveries_failed on webhook_deliveries (tenant_id, endpoint_id, created_at) where failed_at is not null;
create table webhook_deliveries_default partition of webhook_deliveries default;

-- Whoever takes deliveries out of the line of an endpoint holds the lock of its row here: so nobody else waits for it.
create table webhook_lines (
  tenant_id uuid not null,
  endpoint_id uuid not null,
  -- No sooner than this, where the endpoint's rate is limited.
  next_send_at timestamptz not null default '-infinity',
  primary key (tenant_id, endpoint_id)
) with (fillfactor = 50);

-- The line of an endpoint: deliveries that wait for an attempt. One is taken out when a job begins to send it.
create table webhook_due (
  tenant_id uuid not null,
  endpoint_id uuid not null,
  sequence bigint not null,
  delivery_id uuid not null,
  delivery_created_at timestamptz not null,
  due_at timestamptz not null,
  -- When it came into the line; of a recovery, which sends also while the endpoint is disabled, when that was asked for.
  queued_at timestamptz not null,
  recovery_id uuid,
  primary key (tenant_id, endpoint_id, sequence, delivery_id)
) with (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000, autovacuum_analyze_scale_factor = 0.05);
create index webhook_due_at on webhook_due (tenant_id, endpoint_id, due_at, sequence);
create index webhook_due_of_recovery on webhook_due (tenant_id, recovery_id) where recovery_id is not null;

-- A request to send again what failed within a time.
create table webhook_recoveries (
  tenant_id uuid not null,
  id uuid not null,
  endpoint_id uuid not null,
  since timestamptz not null,
  until timestamptz not null,
  status text not null default 'pending' check (status in ('pending', 'running', 'completed')),
  -- How many deliveries were found so far, and how many of these were not sent after all. Those that are neither waiting nor under way
  -- nor dropped were sent.
  found integer not null default 0,
  dropped integer not null default 0,
  asked_at timestamptz not null default clock_timestamp(),
  -- The creation of the last delivery that was looked at; null when all were.
  after_at timestamptz default '-infinity',
  created_at timestamptz not null default unique_now(),
  updated_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, id)
) with (fillfactor = 70);
create index webhook_recoveries_open on webhook_recoveries (updated_at) where status <> 'completed';
create index webhook_recoveries_of_endpoint on webhook_recoveries (tenant_id, endpoint_id) where status <> 'completed';

-- What came of an endpoint's deliveries, by hour. `bucket`: the logarithm of how long the successful attempt took in ms, to the base
-- 1.1; -1: deliveries that ended without success; -2: attempts that failed. `shard`: so that writers do not wait for each other.
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

-- Whom to tell of what a tenant should look at.
alter table tenants add column contact_email text check (length(contact_email) between 3 and 320);

-- Gives events their next sequences, by turns of the tenants, and makes their deliveries: about `most` rows in all. Answers how many events
-- and deliveries each tenant got, and whether it has more; nothing while somebody else does it. The lock comes first: the statement
-- after it sees all that its last holder did.
create function sequence_events(most integer) returns table (tenant_id uuid, events integer, deliveries integer, more boolean)
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
  ), moved as (
    update events e set sequenced = true, sequence = a.last_sequence - p.of_tenant + p.nth
    from picked p join advanced a on a.tenant_id = p.tenant_id
    where not e.sequenced and e.tenant_id = p.tenant_id and e.created_at = p.created_at and e.id = p.id
    returning e.tenant_id, e.id, e.type, e.sequence, e.created_at
  ), delivery as (
    insert into webhook_deliveries (tenant_id, id, endpoint_id, event_id, event_created_at, type, sequence, status, next_attempt_at, failed_at)
    select m.tenant_id, uuidv7(), p.id, m.id, m.created_at, m.type, m.sequence,
      case p.status when 'enabled' then 'pending' else 'skipped' end, case p.status when 'enabled' then now() end,
      case p.status when 'disabled' then now() end
    from moved m join webhook_endpoints p on p.tenant_id = m.tenant_id and p.deleted_at is null
      and p.types && array['*', split_part(m.type, '.', 1) || '.*', m.type]
    order by m.tenant_id, m.sequence
    returning tenant_id, id, endpoint_id, sequence, status, created_at
  ), due as (
    insert into webhook_due (tenant_id, endpoint_id, sequence, delivery_id, delivery_created_at, due_at, queued_at)
    select d.tenant_id, d.endpoint_id, d.sequence, d.id, d.created_at, now(), clock_timestamp() from delivery d where d.status = 'pending'
  ), line as (
    insert into webhook_lines (tenant_id, endpoint_id) select distinct d.tenant_id, d.endpoint_id from delivery d order by 1, 2
    on conflict do nothing
  )
  select m.tenant_id, m.events, coalesce(d.deliveries, 0),
    (select p.of_tenant < p.waiting or p.waiting >= p.most_events from picked p where p.tenant_id = m.tenant_id limit 1)
  from (select m.tenant_id, count(*)::integer as events from moved m group by 1) m
  left join (select d.tenant_id, count(*)::integer as deliveries from delivery d group by 1) d on d.tenant_id = m.tenant_id;
end $$;

-- With the owner's rights: no process may change an event otherwise. Who may call it says roles.sql.
do $$ begin
  execute format('alter function sequence_events(integer) security definer set search_path = %I, pg_temp', current_schema());
end $$;
revoke all on function sequence_events(integer) from public;

-- Those of `events` are its second level now, and deliveries are kept as long as events.
create or replace view partitions as
  select parent.relname as parent, c.relname as name, bound = 'DEFAULT' as is_default,
    (regexp_match(bound, 'FROM \(''([^'']+)''\)'))[1]::timestamptz as from_time,
    (regexp_match(bound, 'TO \(''([^'']+)''\)'))[1]::timestamptz as to_time
  from pg_inherits i
  join pg_class c on c.oid = i.inhrelid and c.relispartition and c.relkind = 'r'
  join pg_class parent on parent.oid = i.inhparent
  cross join lateral pg_get_expr(c.relpartbound, c.oid) bound
  where parent.relname in ('sequenced_events', 'webhook_deliveries', 'job_history', 'job_attempt_history', 'notification_history')
    and parent.relnamespace = (select relnamespace from pg_class where oid = 'jobs'::regclass);

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

create or replace function drop_next_partition(kind text, days integer) returns text language plpgsql as $$
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
    raise exception 'history of "%" is not forgotten after % days', kind, days using errcode = 'invalid_parameter_value';
  end if;
  if ended <= now() - days * interval '1 day' then
    names := (select string_agg(format('%I', name), ', ') from partitions p where p.parent = any(parents) and p.to_time = ended);
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
  -- Not now; or somebody else was faster.
  when lock_not_available or undefined_table then return null;
end $$;

do $$
declare
  each text;
begin
  foreach each in array array['make_next_partition()', 'drop_next_partition(text, integer)'] loop
    execute format('alter function %s security definer set search_path = %I, pg_temp', each, current_schema());
    execute format('alter function %s set timezone = ''UTC''', each);
    execute format('alter function %s set lock_timeout = ''50ms''', each);
  end loop;
end $$;

do $$
declare
  each record;
begin
  for each in
    select a.attrelid::regclass as name, a.attname as column_name
    from pg_attribute a join pg_class c on c.oid = a.attrelid
    where c.relnamespace = current_schema()::regnamespace and c.relkind = 'r' and a.attnum > 0 and not a.attisdropped
      and c.relname in ('unsequenced_events', 'event_sequences', 'webhook_endpoints', 'webhook_deliveries_default', 'webhook_due',
        'webhook_lines', 'webhook_recoveries', 'webhook_stats')
  loop
    execute format('alter table %s alter column %I set statistics 10', each.name, each.column_name);
  end loop;
end $$;

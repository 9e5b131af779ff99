-- What tenants are told after a switch of the database. No sequence of the feed may name two events, although sequences
-- that consumers have read may be lost here.

-- The only gaps in feeds: a feed has no sequence between `last_sequence_before` and `next_sequence`. A consumer whose
-- position is in between has read events that no longer exist.
create table feed_restarts (
  tenant_id uuid not null,
  id uuid not null default gen_random_uuid(),
  -- The number of the switch in `database_switches`.
  switch_number bigint not null,
  last_sequence_before bigint not null check (last_sequence_before >= 0),
  -- The sequence of the event `feed.restarted`.
  next_sequence bigint not null check (next_sequence > last_sequence_before),
  created_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, id),
  constraint feed_restarts_switch unique (tenant_id, switch_number),
  constraint feed_restarts_next unique (tenant_id, next_sequence)
);

-- Restarts the feed of every tenant, in the transaction that records the switch. The next sequence is the number of
-- microseconds since 2026, or the one after the last sequence if that is higher. No feed gets an event each microsecond,
-- so all sequences that were given until now are lower, also those that are lost here. Events that have no sequence yet
-- follow: a consumer may know them by a sequence that is lost.
--
-- `clock`: the latest reading of the database's clock by the witness, which counts if the clock was set back; null without
-- a witness. Returns the reading that the witness has to keep in its place. It is a minute later than the next sequence,
-- so that it is also later than the sequences until the next reading. Deliveries are those of `sequence_events`.
create function restart_feeds(switch_number bigint, clock timestamptz) returns timestamptz
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
    from tenants t left join event_sequences s on s.tenant_id = t.id where t.id <> system_tenant order by t.id
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
revoke execute on function restart_feeds(bigint, timestamptz) from public;

-- Accepted requests that a switch of the database has lost: Redis has a record of them, and no provider made an object.
create table lost_requests (
  tenant_id uuid not null,
  id uuid not null,
  -- The entry in the stream of accepted requests.
  entry text not null check (length(entry) <= 64),
  switch_number bigint not null,
  idempotency_key text check (length(idempotency_key) between 1 and 255),
  path text not null check (length(path) <= 2000),
  resource_id uuid not null,
  accepted_at timestamptz not null,
  created_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, id),
  constraint lost_requests_entry unique (tenant_id, entry)
);
create index lost_requests_accepted on lost_requests (accepted_at, id);

-- See 0015_settings.sql.
do $$
declare
  each record;
begin
  for each in
    select attrelid::regclass as name, attname from pg_attribute
    where attrelid in ('feed_restarts'::regclass, 'lost_requests'::regclass) and attnum > 0
  loop
    execute format('alter table %s alter column %I set statistics 10', each.name, each.attname);
  end loop;
end $$;

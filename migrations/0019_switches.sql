-- Switches of the database: after a restore, a rolled back volume or a promoted standby, the database is another one
-- than before, and may lack what was committed last.

-- The server on which the database runs, as the processes last found it. A server is in use only while the row names
-- it: on another one nothing is claimed. A database goes back in time only together with a start of its server, so the
-- row also names the start.
create table lineage (
  system_identifier text not null,
  timeline integer not null,
  server_started_at timestamptz not null,
  -- The number of the last switch; 0 before the first.
  last_switch bigint not null default 0,
  -- The highest number of a switch of which a witness knew while another server was in use.
  witnessed_switch bigint not null default 0,
  -- Which jobs wait since a switch. `payouts`: payouts and refunds. `creations`: all that create something at a
  -- provider. `all`: all but lookups. Null: none.
  hold text check (hold in ('payouts', 'creations', 'all')),
  -- Messages that were accepted before this time wait.
  holds_messages_before timestamptz,
  -- The database is sealed, because it will move to another server: nothing is accepted or claimed.
  seal uuid,
  is_only boolean primary key default true check (is_only)
);

create table database_switches (
  number bigint primary key,
  kind text not null check (kind in ('failover', 'restore', 'planned')),
  -- What showed the switch: another server or timeline, a witness that had seen later changes, or an operator.
  sign text not null check (sign in ('lineage', 'witness', 'operator')),
  from_system_identifier text not null,
  from_timeline integer not null,
  to_system_identifier text not null,
  to_timeline integer not null,
  -- The newest change in the database before the switch: what happened later may be lost.
  newest_at timestamptz not null,
  -- What the witness remembered, with the head of the audit log; null without a witness. `witnessed_at`: when it last
  -- read the database's clock.
  witness jsonb,
  witnessed_at timestamptz,
  switched_at timestamptz not null,
  -- While the switch is recorded: the last job that was visited. `jobs_in_doubt`: the number of open jobs whose calls
  -- count as sent.
  visited_at timestamptz not null default '-infinity',
  visited_job uuid not null default '00000000-0000-0000-0000-000000000000',
  jobs_in_doubt integer not null default 0,
  recorded_at timestamptz,
  -- When everything that the providers list since an hour before `newest_at` had been taken up.
  lists_read_at timestamptz,
  -- When jobs were released, by whom, and what happens to messages that were accepted before the switch.
  released_at timestamptz,
  released_by text check (length(released_by) between 1 and 320),
  messages text check (messages in ('send', 'discard')),
  -- When the messages had been discarded.
  discarded_at timestamptz,
  -- When an operator took away the banner.
  acknowledged_at timestamptz,
  acknowledged_by text check (length(acknowledged_by) between 1 and 320),
  constraint database_switches_released check (num_nulls(released_at, released_by, messages) in (0, 3)),
  constraint database_switches_acknowledged check ((acknowledged_at is null) = (acknowledged_by is null))
);
create unique index database_switches_recording on database_switches ((true)) where recorded_at is null;

-- The timeline of the write-ahead log that the server writes. The control file has the one of the last checkpoint.
create function current_timeline() returns integer language sql stable
  return ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::integer;

insert into lineage (system_identifier, timeline, server_started_at)
select system_identifier::text, current_timeline(), pg_postmaster_start_time() from pg_control_system();

-- The newest change in the database before `until`, up to the ten seconds between two heartbeats of a process.
create function newest_change(until timestamptz) returns timestamptz language sql stable as $$
  select greatest(
    (select max(p.seen_at) from processes p where p.seen_at < until),
    (select max(h.finished_at) from job_history h where h.finished_at < until),
    (select max(j.finished_at) from jobs j where j.finished_at < until),
    (select max(j.created_at) from jobs j where j.finished_at is null and j.created_at < until))
$$;

-- The newest change that this server took over. Processes may have written to it already. A server that was promoted
-- or restored from the archive knows the time of the last commit that it took over, which counts if heartbeats were
-- written since; another server took over nothing that is newer than its start.
create function newest_change_taken_over(is_rewound boolean) returns timestamptz language sql stable as $$
  select coalesce(
    case when exists (select from processes p where p.seen_at >= until) then replayed_at end,
    newest_change(until), replayed_at, to_timestamp(0))
  from (
    select replayed_at, coalesce(replayed_at, pg_postmaster_start_time()) as until
    from (select case when not is_rewound then pg_last_xact_replay_timestamp() end as replayed_at) replayed
  ) taken_over
$$;

-- Records a switch, one batch of open jobs for each call: returns false while there are more. The caller has locked the
-- row of `lineage`. What waits since the switch is held from the moment at which the row names the new server.
--
-- Work of a job that was open may have been done after `newest_at`, when the database lost it. So its call counts as
-- sent at the creation of the job, whatever its row says; `sent_with` `*` stands for all credentials. If the database
-- went back by more than two minutes, a call may even have got a new key meanwhile, so it is looked up first. So is
-- each payout: it may have been canceled after `newest_at`, and others may have used its balance. An attempt that runs
-- ends: what it has learned may be older than the switch.
create function record_switch(server jsonb, witness jsonb, sign text, newest_at timestamptz) returns boolean
language plpgsql as $$
#variable_conflict use_column
declare
  kept lineage;
  switch database_switches;
  visited integer;
begin
  select * into kept from lineage;
  select * into switch from database_switches where recorded_at is null;
  if not found then
    -- The clock of a promoted standby may be behind.
    for waited in 1..50 loop
      exit when clock_timestamp() > record_switch.newest_at;
      perform pg_sleep(0.1);
    end loop;
    insert into database_switches (number, kind, sign, from_system_identifier, from_timeline, to_system_identifier,
      to_timeline, newest_at, witness, witnessed_at, switched_at)
    values (greatest(kept.last_switch, kept.witnessed_switch, (witness ->> 'switch')::bigint) + 1,
      case when record_switch.sign <> 'operator'
          and record_switch.newest_at >= (witness ->> 'clock')::timestamptz - interval '60 seconds'
        then 'failover' else 'restore' end,
      record_switch.sign, kept.system_identifier, kept.timeline, server ->> 'system_identifier',
      (server ->> 'timeline')::integer, record_switch.newest_at, record_switch.witness,
      (witness ->> 'clock')::timestamptz, clock_timestamp())
    returning * into switch;
  end if;

  with visit as materialized (
    select * from jobs j where j.finished_at is null and j.created_at < switch.switched_at
      and (j.created_at, j.id) > (switch.visited_at, switch.visited_job)
    order by j.created_at, j.id limit 5000
  ), doubted as (
    update jobs j set in_doubt = true, first_sent_at = j.created_at, last_sent_at = switch.switched_at,
      sent_with = case when j.sent_with like '%*' then j.sent_with else concat_ws(' ', j.sent_with, '*') end,
      unknown_since = coalesce(j.unknown_since,
        case when j.operation = 'payout' or switch.newest_at < switch.switched_at - interval '2 minutes'
          then switch.switched_at end),
      absent_since = null, refused_since = null, wakeup_sent_at = null,
      state = case when j.state = 'running' then 'ready' else j.state end, lease_token = null, lease_until = null
    from (select id from visit order by id) visit
    where j.id = visit.id and j.finished_at is null and j.operation is not null
      and (j.queue <> 'messages' or j.run_at <= switch.switched_at or j.run_at = 'infinity')
    returning j.tenant_id, j.id, j.resource_id, j.operation, j.attempt, j.worker, j.started_at,
      old.state = 'running' as was_running
  ), lost_attempt as (
    insert into job_attempts (tenant_id, job_id, attempt, worker, started_at, in_doubt)
    select tenant_id, id, attempt, worker, started_at, true from doubted where was_running
    on conflict do nothing
  ), payout as (
    update payouts p set call_started_at = p.created_at from doubted d
    where d.operation = 'payout' and p.tenant_id = d.tenant_id and p.id = d.resource_id and p.status = 'pending'
      and p.call_started_at is null
  ), message as (
    update messages m set status = 'sending', begun_at = switch.switched_at, updated_at = clock_timestamp()
    from doubted d
    where d.operation in ('send_email', 'send_sms') and m.tenant_id = d.tenant_id and m.id = d.resource_id
      and m.status in ('scheduled', 'queued')
  ), last as (
    select created_at, id from visit order by created_at desc, id desc limit 1
  ), progress as (
    update database_switches s set jobs_in_doubt = s.jobs_in_doubt + (select count(*) from doubted),
      visited_at = last.created_at, visited_job = last.id
    from last where s.number = switch.number
  )
  select count(*) into visited from visit;
  if visited = 5000 then return false; end if;

  -- Each switch has its own second: even if the clock was set back, no two restarts give the same sequences.
  perform restart_feeds(switch.number,
    greatest(clock_timestamp(), (witness ->> 'clock')::timestamptz) + switch.number * interval '1 second');
  update lineage set system_identifier = server ->> 'system_identifier',
    timeline = (server ->> 'timeline')::integer, server_started_at = pg_postmaster_start_time(),
    last_switch = switch.number, seal = null;
  update database_switches set recorded_at = clock_timestamp(),
    to_system_identifier = server ->> 'system_identifier', to_timeline = (server ->> 'timeline')::integer
  where number = switch.number;
  return true;
end $$;

-- The server as a witness remembers it. `lsn`: the position up to which changes are durable, so that a crash does not
-- move it back; as digits in the order of positions. `xid`: all transactions below have ended.
create function server_facts() returns jsonb language sql volatile as $$
  select jsonb_build_object('system_identifier', system_identifier::text, 'timeline', current_timeline(),
    'lsn', lpad(split_part(lsn, '/', 1), 8, '0') || lpad(split_part(lsn, '/', 2), 8, '0'),
    'xid', pg_snapshot_xmin(pg_current_snapshot())::text, 'clock', clock_timestamp(),
    'audit', (select jsonb_build_object('seq', seq, 'hash', encode(hash, 'hex')) from audit_head))
  from pg_control_system(), (select pg_current_wal_flush_lsn()::text as lsn) position
$$;

-- Records a switch after which nothing can be missing.
create function record_complete_switch(server jsonb, witness jsonb, kind text) returns void language plpgsql as $$
declare
  kept lineage;
begin
  select * into kept from lineage;
  insert into database_switches (number, kind, sign, from_system_identifier, from_timeline, to_system_identifier,
    to_timeline, newest_at, witness, witnessed_at, switched_at, recorded_at, lists_read_at, released_at, released_by,
    messages)
  values (kept.last_switch + 1, record_complete_switch.kind, 'lineage', kept.system_identifier, kept.timeline,
    server ->> 'system_identifier', (server ->> 'timeline')::integer, now(), record_complete_switch.witness,
    (witness ->> 'clock')::timestamptz, now(), now(), now(), now(), 'system', 'send');
  update lineage set system_identifier = server ->> 'system_identifier', timeline = (server ->> 'timeline')::integer,
    server_started_at = pg_postmaster_start_time(), last_switch = kept.last_switch + 1, seal = null;
end $$;

-- Compares the server with the one on record and with the newest facts that a witness remembers (null without one),
-- and records a switch. Returns the facts about the server, the number of the last switch, and `state`: `current`;
-- `sealed`; `superseded` while another server is in use, so that nothing may be read or written here; `recording` while
-- the switch is not recorded yet: call again. `recorded`: this call has recorded the switch. `lost_since`: what
-- happened later may have been lost by a switch of the last day. `is_synchronous`: a standby
-- that is promoted has everything that was committed. Runs with the owner's rights: each process may be the first to
-- notice.
create function check_server(witness jsonb, is_synchronous boolean) returns jsonb
language plpgsql security definer as $$
declare
  server jsonb := server_facts();
  kept lineage;
  is_same boolean;
  is_known boolean;
  is_rewound boolean;
  is_planned boolean;
  is_interrupted boolean;
  state text;
  recorded boolean := false;
begin
  select * into kept from lineage;
  for try in 1..2 loop
    -- Facts that cannot be true are no witness: whoever writes to Redis could stop the system with them.
    if (witness ->> 'switch')::numeric not between kept.last_switch and kept.last_switch + 1000
      or (witness ->> 'timeline')::numeric not between 1 and 2147483647
      or (witness ->> 'clock')::timestamptz > clock_timestamp() + interval '1 day' then
      witness := null;
    end if;
    is_same := (kept.system_identifier, kept.timeline)
      = (server ->> 'system_identifier', (server ->> 'timeline')::integer);
    is_known := coalesce(witness ->> 'system_identifier' = server ->> 'system_identifier', false);
    is_rewound := is_known and witness ->> 'timeline' = server ->> 'timeline'
      and (server ->> 'lsn') collate "C" < (witness ->> 'lsn') collate "C";
    is_planned := kept.seal is not null and not is_same
      and (witness is null or coalesce(witness ->> 'seal' = kept.seal::text, false));
    state := case
      when is_planned then 'recording'
      when witness is not null and not is_known then 'superseded'
      when (server ->> 'timeline')::integer < (witness ->> 'timeline')::integer then 'superseded'
      -- Another server has taken over: a copy of the files, or an older one by the word of an operator.
      when is_same and (witness ->> 'switch')::bigint > kept.last_switch
        and kept.server_started_at = pg_postmaster_start_time() then 'superseded'
      when is_rewound or not is_same then 'recording'
      when kept.seal is not null then 'sealed'
      else 'current' end;
    if state = 'superseded' then
      update lineage set witnessed_switch = (witness ->> 'switch')::bigint
      where witnessed_switch < (witness ->> 'switch')::bigint;
    end if;
    exit when state in ('superseded', 'sealed')
      or (state = 'current' and kept.server_started_at = pg_postmaster_start_time());
    if try = 1 then
      select * into kept from lineage for update;
      continue;
    end if;
    if state = 'current' then
      update lineage set server_started_at = pg_postmaster_start_time();
      exit;
    end if;
    recorded := true;
    -- A switch whose recording was interrupted comes first.
    is_interrupted := exists (select from database_switches where recorded_at is null);
    if is_planned and not is_interrupted then
      perform record_complete_switch(server, witness, 'planned');
    elsif is_synchronous and not is_rewound and is_known and not is_interrupted
      and (witness ->> 'xid')::xid8 <= pg_snapshot_xmax(pg_current_snapshot()) then
      perform record_complete_switch(server, witness, 'failover');
    else
      recorded := record_switch(server, witness, case when is_rewound then 'witness' else 'lineage' end,
        newest_change_taken_over(is_rewound));
    end if;
    if recorded then state := 'current'; end if;
  end loop;
  select * into kept from lineage;
  return server || jsonb_build_object('switch', kept.last_switch, 'hold', kept.hold, 'seal', kept.seal,
    'state', state, 'recorded', recorded, 'lost_since', (
      select min(s.newest_at) from database_switches s
      where s.switched_at > now() - interval '24 hours' and s.newest_at < s.switched_at and s.recorded_at is not null));
end $$;

-- Records that the database went back to this time, by the word of an operator: the server is in use from then on.
-- Null: to the newest change. Returns false while there are more jobs: call again.
create function declare_switch(newest_at timestamptz) returns boolean language plpgsql as $$
begin
  perform from lineage for update;
  return record_switch(server_facts(), null, 'operator',
    coalesce(newest_at, newest_change('infinity'), to_timestamp(0)));
end $$;

-- What waits follows from the switches.
create function hold_jobs() returns trigger language plpgsql security definer as $$
begin
  update lineage l set hold = s.hold, holds_messages_before = s.holds_messages_before from (
    select case when bool_or(released_at is null and kind = 'restore') then 'all'
        -- A call may have got a new key after two minutes, and providers forget keys after a day.
        when bool_or(lists_read_at is null
          and newest_at < greatest(switched_at - interval '2 minutes', now() - interval '22 hours')) then 'creations'
        when bool_or(lists_read_at is null) then 'payouts' end as hold,
      max(switched_at) filter (where released_at is null or (messages = 'discard' and discarded_at is null))
        as holds_messages_before
    from database_switches where recorded_at is not null and kind <> 'planned'
  ) s
  where (l.hold, l.holds_messages_before) is distinct from (s.hold, s.holds_messages_before);
  return null;
end $$;
create trigger database_switches_hold after insert or update on database_switches
  for each statement execute function hold_jobs();

-- A failover releases itself once the providers' lists have been read.
create function release_failover() returns trigger language plpgsql as $$
begin
  new.released_at := clock_timestamp();
  new.released_by := 'system';
  new.messages := 'send';
  return new;
end $$;
create trigger database_switches_failover before update of lists_read_at on database_switches for each row
  when (old.lists_read_at is null and new.lists_read_at is not null and new.kind = 'failover'
    and new.released_at is null)
  execute function release_failover();

-- See 0015_settings.sql.
do $$
declare
  each record;
begin
  for each in
    select attrelid::regclass as name, attname from pg_attribute
    where attrelid in ('lineage'::regclass, 'database_switches'::regclass) and attnum > 0
  loop
    execute format('alter table %s alter column %I set statistics 10', each.name, each.attname);
  end loop;
  execute format('alter function check_server(jsonb, boolean) set search_path = %I, pg_temp', current_schema());
  execute format('alter function hold_jobs() set search_path = %I, pg_temp', current_schema());
end $$;

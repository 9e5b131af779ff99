-- locks: lineage, database_switches, processes

-- What a witness remembers is compared with more than positions of the write-ahead log: whatever writes to a copy of
-- the files before a process checks it moves its position on.

-- The heartbeat of the database: at most once a second, a check of the server in use raises the number, and nothing
-- else does. Below the number that a witness remembers, the database has gone back in time.
create table database_heartbeat (
  number bigint not null,
  at timestamptz not null,
  -- Whether each commit waited for a synchronous standby.
  is_synchronous boolean not null,
  is_only boolean primary key default true check (is_only)
);
insert into database_heartbeat (number, at, is_synchronous) values (0, now(), false);

-- `sealed_at`: when the database was sealed. Without a witness, a seal is valid for a day.
-- `unsealed_at`: when an operator last ended a seal. One that ends with a switch ends when the switch is recorded.
-- `is_superseded`: the last process that asked witnesses found that another server is in use. The process that
-- receives webhooks asks none, and reads it here.
alter table lineage
  add column sealed_at timestamptz,
  add column unsealed_at timestamptz,
  add column is_superseded boolean not null default false;
update lineage set sealed_at = now() where seal is not null;

-- When a part of the switch was recorded last.
alter table database_switches add column progressed_at timestamptz;

-- `lineage.sealed_at` of the seal that the process has noticed, once it has ended all work that it admitted before.
alter table processes add column sealed_at timestamptz;

create or replace function newest_change(until timestamptz) returns timestamptz language sql stable as $$
  select greatest(
    (select h.at from database_heartbeat h where h.at < until),
    (select max(p.seen_at) from processes p where p.seen_at < until),
    (select max(h.finished_at) from job_history h where h.finished_at < until),
    (select max(j.finished_at) from jobs j where j.finished_at < until),
    (select max(j.created_at) from jobs j where j.finished_at is null and j.created_at < until))
$$;

-- The newest change that this server took over. A process that has not checked the server yet may have renewed its row,
-- but never the heartbeat of the database. A server that was promoted or restored from the archive has the time of the
-- last commit that it took over; another one took over nothing that is newer than its start.
create or replace function newest_change_taken_over(is_rewound boolean) returns timestamptz language sql stable as $$
  select coalesce(newest_change(coalesce(replayed_at, pg_postmaster_start_time())), replayed_at, to_timestamp(0))
  from (select case when not is_rewound then pg_last_xact_replay_timestamp() end as replayed_at) replayed
$$;

-- Restarts the feeds of up to 5,000 tenants that the switch has not restarted yet, before the server is in use.
-- Otherwise as in 0021_losses.sql.
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

-- As in 0019_switches.sql, except: feeds are restarted in batches too; an operator can name an earlier time while the
-- switch is recorded; the number is higher than all that witnesses know, also if a recording was interrupted; a
-- failover is recognized by the time of the last heartbeat that a witness remembers, never by the time at which the
-- witness was written.
create or replace function record_switch(server jsonb, witness jsonb, sign text, newest_at timestamptz) returns boolean
language plpgsql as $$
#variable_conflict use_column
declare
  kept lineage;
  next_number bigint;
  -- A witness that is much older than the database does not show what was lost.
  is_failover constant boolean := coalesce(record_switch.sign <> 'operator'
    and record_switch.newest_at between (witness -> 'heartbeat' ->> 'at')::timestamptz - interval '60 seconds'
      and (witness -> 'heartbeat' ->> 'at')::timestamptz + interval '60 seconds', false);
  is_lower boolean;
  switch database_switches;
  visited integer;
begin
  select * into kept from lineage;
  next_number := greatest(kept.last_switch, kept.witnessed_switch, (witness ->> 'switch')::bigint) + 1;
  select * into switch from database_switches where recorded_at is null;
  if not found then
    -- The clock of a promoted standby may be behind.
    for waited in 1..50 loop
      exit when clock_timestamp() > record_switch.newest_at;
      perform pg_sleep(0.1);
    end loop;
    insert into database_switches (number, kind, sign, from_system_identifier, from_timeline, to_system_identifier,
      to_timeline, newest_at, witness, witnessed_at, switched_at)
    values (next_number, case when is_failover then 'failover' else 'restore' end, record_switch.sign,
      kept.system_identifier, kept.timeline, server ->> 'system_identifier',
      (server ->> 'timeline')::integer, record_switch.newest_at, record_switch.witness,
      (witness ->> 'clock')::timestamptz,
      greatest(clock_timestamp(), record_switch.newest_at + interval '1 microsecond'))
    returning * into switch;
  elsif switch.number < next_number or record_switch.newest_at < switch.newest_at
    or coalesce(switch.progressed_at, switch.switched_at) < clock_timestamp() - interval '10 minutes' then
    -- The recording was interrupted, the database was restored meanwhile, so that a witness knows the number, or an
    -- operator names an earlier time: the jobs are visited again. What was lost meanwhile can make it a restore.
    is_lower := switch.number < next_number or record_switch.newest_at < switch.newest_at;
    update database_switches set number = greatest(number, next_number), switched_at = clock_timestamp(),
      visited_at = '-infinity', jobs_in_doubt = 0,
      newest_at = least(newest_at, record_switch.newest_at),
      kind = case when is_lower and not is_failover then 'restore' else kind end,
      sign = case when record_switch.sign = 'operator' then 'operator' else sign end,
      witness = coalesce(record_switch.witness, witness),
      witnessed_at = coalesce((record_switch.witness ->> 'clock')::timestamptz, witnessed_at)
    where number = switch.number returning * into switch;
  end if;
  update database_switches set progressed_at = clock_timestamp() where number = switch.number;

  with visit as materialized (
    select * from jobs j where j.finished_at is null and j.created_at < switch.switched_at
      and (j.created_at, j.id) > (switch.visited_at, switch.visited_job)
    order by j.created_at, j.id limit 5000
  ), possibly_sent as (
    update jobs j set in_doubt = true, first_sent_at = j.created_at, last_sent_at = switch.switched_at,
      sent_with = case when j.sent_with like '%*' then j.sent_with else concat_ws(' ', j.sent_with, '*') end,
      unknown_since = coalesce(j.unknown_since,
        case when j.operation = 'payout' or switch.newest_at < switch.switched_at - interval '2 minutes'
          then switch.switched_at end),
      absent_since = null, refused_since = null, wakeup_sent_at = null,
      state = case when j.state = 'running' then 'ready' else j.state end, lease_token = null, lease_until = null
    from (select id from visit order by id) visit
    where j.id = visit.id and j.finished_at is null and j.operation is not null
      -- Processes at the previous server may send what falls due before they notice the switch.
      and (j.queue <> 'messages'
        or j.run_at <= greatest(switch.switched_at, switch.witnessed_at) + interval '30 seconds'
        or j.run_at = 'infinity')
    returning j.tenant_id, j.id, j.resource_id, j.operation, j.attempt, j.worker, j.started_at,
      old.state = 'running' as was_running
  ), lost_attempt as (
    insert into job_attempts (tenant_id, job_id, attempt, worker, started_at, in_doubt)
    select tenant_id, id, attempt, worker, started_at, true from possibly_sent where was_running
    on conflict do nothing
  ), payout as (
    update payouts p set call_started_at = p.created_at from possibly_sent d
    where d.operation = 'payout' and p.tenant_id = d.tenant_id and p.id = d.resource_id and p.status = 'pending'
      and p.call_started_at is null
  ), message as (
    update messages m set status = 'sending', begun_at = switch.switched_at, updated_at = clock_timestamp()
    from possibly_sent d
    where d.operation in ('send_email', 'send_sms') and m.tenant_id = d.tenant_id and m.id = d.resource_id
      and m.status in ('scheduled', 'queued')
  ), last as (
    select created_at, id from visit order by created_at desc, id desc limit 1
  ), progress as (
    update database_switches s set jobs_in_doubt = s.jobs_in_doubt + (select count(*) from possibly_sent),
      visited_at = last.created_at, visited_job = last.id
    from last where s.number = switch.number
  )
  select count(*) into visited from visit;
  if visited = 5000 then return false; end if;

  -- Each switch has its own second: even if the clock was set back, no two restarts give the same sequences.
  perform restart_feeds(switch.number,
    greatest(clock_timestamp(), (witness ->> 'clock')::timestamptz) + switch.number * interval '1 second');
  if exists (
    select from tenants t where t.id <> '00000000-0000-7000-8000-000000000000'
      and not exists (select from feed_restarts r where r.tenant_id = t.id and r.switch_number = switch.number))
  then return false; end if;
  update lineage set system_identifier = server ->> 'system_identifier',
    timeline = (server ->> 'timeline')::integer, server_started_at = pg_postmaster_start_time(),
    last_switch = switch.number, seal = null;
  update database_switches set recorded_at = clock_timestamp(),
    to_system_identifier = server ->> 'system_identifier', to_timeline = (server ->> 'timeline')::integer
  where number = switch.number;
  return true;
end $$;

-- The facts that the database itself has: they can also be read during recovery.
create function database_facts() returns jsonb language sql stable as $$
  select jsonb_build_object(
    'heartbeat', (select jsonb_build_object('number', number, 'at', at) from database_heartbeat),
    'audit', (select jsonb_build_object('seq', seq, 'hash', encode(hash, 'hex')) from audit_head))
$$;

-- `xid` is for processes of the previous version.
create or replace function server_facts() returns jsonb language sql volatile as $$
  select database_facts() || jsonb_build_object('system_identifier', system_identifier::text,
    'timeline', current_timeline(),
    'lsn', lpad(split_part(lsn, '/', 1), 8, '0') || lpad(split_part(lsn, '/', 2), 8, '0'),
    'xid', pg_snapshot_xmin(pg_current_snapshot())::text, 'clock', clock_timestamp())
  from pg_control_system(), (select pg_current_wal_flush_lsn()::text as lsn) position
$$;

-- Whether a witness remembers something that the server has lost. Positions can be compared on the same timeline of the
-- same system only. The command `recover` asks it too.
create function is_behind(server jsonb, witness jsonb) returns boolean language sql stable as $$
  select coalesce((server -> 'heartbeat' ->> 'number')::bigint < (witness -> 'heartbeat' ->> 'number')::bigint, false)
    or coalesce((server -> 'audit' ->> 'seq')::bigint < (witness -> 'audit' ->> 'seq')::bigint, false)
    or coalesce(server ->> 'system_identifier' = witness ->> 'system_identifier'
      and server ->> 'timeline' = witness ->> 'timeline'
      and (server ->> 'lsn') collate "C" < (witness ->> 'lsn') collate "C", false)
$$;

-- Whether the server makes each commit wait for a synchronous standby. What a session has set for itself, also when it
-- connected, holds for no other session. Without a standby, `pg_settings` is not read: it costs half a millisecond.
create function has_synchronous_standby() returns boolean language sql stable as $$
  select case when current_setting('synchronous_standby_names') = '' then false
    else coalesce((
      select setting in ('on', 'remote_apply') and source not in ('client', 'session', 'interactive', 'override')
      from pg_settings where name = 'synchronous_commit'), false) end
$$;

-- Whether the facts of a witness can be true and are not older than the last switch. Others count as no witness. The
-- clock of this server may be wrong, so it judges no other clock.
create function is_possible(witness jsonb, last_switch bigint) returns boolean language sql stable as $$
  select coalesce((witness ->> 'switch')::numeric between last_switch and last_switch + 1000
    and (witness ->> 'timeline')::numeric between 1 and 2147483647
    and (witness ->> 'clock')::timestamptz <= '2200-01-01', false)
$$;

-- Raises the heartbeat unless that was done within the last second. Returns whether it was raised.
create function raise_heartbeat() returns boolean language sql volatile as $$
  with due as (
    select from database_heartbeat where at not between clock_timestamp() - interval '1 second' and clock_timestamp()
    for update skip locked
  ), raised as (
    update database_heartbeat
    set number = number + 1, at = clock_timestamp(), is_synchronous = has_synchronous_standby()
    where exists (select from due) returning number
  )
  select exists (select from raised)
$$;

-- Compares the server with the one on record and with the newest facts that a witness remembers (null without one),
-- and records a switch. `is_synchronous`: a standby that is promoted has everything that was committed. `all_answered`:
-- all witnesses have answered; null: the process asks none, and records nothing. `waited_for`: the start of the server
-- after which silent witnesses were waited for long enough. `is_repeated`: the check repeats one that was
-- `unconfirmed`.
--
-- Returns the facts about the server, the number of the last switch, and `state`: `current`; `sealed`; `superseded`
-- while another server is in use, so that nothing may be read or written here; `recording` while the switch is not
-- recorded yet: call again; `unchecked` while witnesses must answer, or another process must record the switch;
-- `unconfirmed` if the server is behind a witness and has not started since it was checked: ask the witnesses after a
-- second, and call again. `recorded`: this call has recorded the switch. `raised_heartbeat`: this call has raised the
-- heartbeat. `started_at`: when the server started. `sealed_at`: when the database was sealed. `recording_since`: a
-- switch is not recorded completely.
-- `lost_since`: what happened later may have been lost by a switch of the last day.
--
-- Runs with the owner's rights. The process that receives webhooks and the dashboard record nothing and raise no
-- heartbeat, because whoever has taken one of them over could make up what it says about witnesses. Nor do they get the
-- seal.
create function check_server(
  witness jsonb, is_synchronous boolean, all_answered boolean, waited_for timestamptz, is_repeated boolean
) returns jsonb language plpgsql security definer as $$
declare
  may_record constant boolean := all_answered is not null and (pg_has_role(session_user, current_user, 'usage')
    or coalesce(pg_has_role(session_user, to_regrole('sluice_worker'), 'usage'), false)
    -- The role of the dashboard has the rights of the API.
    or coalesce(pg_has_role(session_user, to_regrole('sluice_api'), 'usage')
      and not pg_has_role(session_user, to_regrole('sluice_dashboard'), 'usage'), false));
  server jsonb := server_facts();
  kept lineage;
  is_started boolean;
  is_on_record boolean;
  is_same_system boolean;
  is_rewound boolean;
  is_planned boolean;
  is_interrupted boolean;
  state text;
  recorded boolean := false;
  raised_heartbeat boolean := false;
begin
  select * into kept from lineage;
  for try in 1..2 loop
    if not is_possible(witness, kept.last_switch) then witness := null; end if;
    is_started := kept.server_started_at is distinct from pg_postmaster_start_time();
    is_on_record := (kept.system_identifier, kept.timeline)
      = (server ->> 'system_identifier', (server ->> 'timeline')::integer);
    is_same_system := coalesce(witness ->> 'system_identifier' = server ->> 'system_identifier', false);
    is_rewound := is_same_system and witness ->> 'timeline' = server ->> 'timeline' and is_behind(server, witness);
    is_planned := kept.seal is not null and not is_on_record and case when witness is null
      then kept.sealed_at > clock_timestamp() - interval '1 day'
      else coalesce(witness ->> 'seal' = kept.seal::text, false) and not is_behind(server, witness) end;
    state := case
      when is_started and not coalesce(all_answered, true) and waited_for is distinct from pg_postmaster_start_time()
        then 'unchecked'
      when is_planned then 'recording'
      when witness is not null and not is_same_system then 'superseded'
      when (server ->> 'timeline')::integer < (witness ->> 'timeline')::integer then 'superseded'
      -- Another server has taken over: a copy of the files, or an older one by the word of an operator.
      when is_on_record and (witness ->> 'switch')::bigint > kept.last_switch and not (is_started and is_rewound)
        then 'superseded'
      when is_rewound and is_on_record and not is_started and not is_repeated then 'unconfirmed'
      when is_rewound or not is_on_record then 'recording'
      when kept.seal is not null then 'sealed'
      else 'current' end;
    if not may_record and state <> 'sealed' then
      state := case
        when kept.is_superseded then 'superseded'
        when state in ('recording', 'unconfirmed') or (state = 'current' and is_started) then 'unchecked'
        else state end;
    end if;
    if state = 'superseded' and may_record then
      update lineage set is_superseded = true,
        witnessed_switch = greatest(witnessed_switch, (witness ->> 'switch')::bigint)
      where not is_superseded or witnessed_switch < (witness ->> 'switch')::bigint;
    end if;
    exit when state in ('superseded', 'sealed', 'unchecked', 'unconfirmed') or (state = 'current' and not is_started);
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
    elsif is_synchronous and is_same_system and not is_interrupted and not is_behind(server, witness)
      and (select h.is_synchronous from database_heartbeat h) then
      perform record_complete_switch(server, witness, 'failover');
    else
      recorded := record_switch(server, witness, case when is_rewound then 'witness' else 'lineage' end,
        least(newest_change_taken_over(is_rewound),
          -- Processes that record nothing may have written since the start.
          case when is_rewound or is_behind(server, witness) or pg_last_xact_replay_timestamp() is null
            then (select h.at from database_heartbeat h) end));
    end if;
    if recorded then state := 'current'; end if;
  end loop;
  if state = 'current' and may_record then
    if kept.is_superseded then update lineage set is_superseded = false; end if;
    raised_heartbeat := raise_heartbeat();
  end if;
  select * into kept from lineage;
  return server || jsonb_build_object('started_at', pg_postmaster_start_time(), 'switch', kept.last_switch,
    'hold', kept.hold, 'seal', case when may_record then kept.seal end, 'sealed_at', kept.sealed_at, 'state', state,
    'recorded', recorded,
    'raised_heartbeat', raised_heartbeat,
    'recording_since', (select s.switched_at from database_switches s where s.recorded_at is null), 'lost_since', (
      select min(s.newest_at) from database_switches s
      where s.switched_at > now() - interval '24 hours' and s.newest_at < s.switched_at and s.recorded_at is not null));
end $$;

-- For processes of the previous version.
create or replace function check_server(witness jsonb, is_synchronous boolean) returns jsonb
language sql security definer as $$ select check_server(witness, is_synchronous, true, null, true) $$;

-- Records that the database went back to this time, by the word of an operator: the server is in use from then on. The
-- number of the switch is higher than each one that the database or the witness (null without one) remembers: a witness
-- of a later switch would keep the server out of use. Returns false while there are more jobs or feeds: call again with
-- the same time. The default is for commands of the previous version.
drop function declare_switch(timestamptz);
create function declare_switch(newest_at timestamptz, witness jsonb default null) returns boolean language plpgsql as $$
declare
  last_switch bigint;
begin
  select l.last_switch into last_switch from lineage l for update;
  return record_switch(
    server_facts(), case when is_possible(witness, last_switch) then witness end, 'operator', newest_at);
end $$;

-- See 0015_settings.sql.
alter table database_switches alter column progressed_at set statistics 10;
alter table processes alter column sealed_at set statistics 10;
do $$
declare
  each record;
begin
  for each in
    select attrelid::regclass as name, attname from pg_attribute
    where attrelid in ('lineage'::regclass, 'database_heartbeat'::regclass) and attnum > 0 and not attisdropped
  loop
    execute format('alter table %s alter column %I set statistics 10', each.name, each.attname);
  end loop;
  execute format('alter function check_server(jsonb, boolean) set search_path = %I, pg_temp', current_schema());
  execute format('alter function check_server(jsonb, boolean, boolean, timestamptz, boolean)
    set search_path = %I, pg_temp', current_schema());
end $$;

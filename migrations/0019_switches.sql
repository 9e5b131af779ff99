-- Switches of the database: after a restore, a rolled back volume or a promoted standby, the database is another one
-- than before, and may lack what was committed last.

-- The server on which the database runs, as every process last found it. A server is in use only while the row names
-- it: a claim on another one claims nothing. A database goes back in time only together with a start of its server, so
-- the row also names the start.
create table lineage (
  system_identifier bigint not null,
  timeline integer not null,
  server_started_at timestamptz not null,
  -- The number of the last switch; 0 before the first.
  last_switch bigint not null default 0,
  -- Why jobs wait since the last switch: `failover` holds payouts, refunds and messages, `restore` holds all jobs that
  -- have an effect. Null: nothing is held.
  hold text check (hold in ('failover', 'restore')),
  is_only boolean primary key default true check (is_only)
);
insert into lineage (system_identifier, timeline, server_started_at)
select system_identifier, ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::integer, pg_postmaster_start_time()
from pg_control_system();

create table database_switches (
  number bigint primary key,
  kind text not null check (kind in ('failover', 'restore', 'planned')),
  -- What showed the switch: another server or timeline, a witness that had seen later changes, or an operator.
  sign text not null check (sign in ('lineage', 'witness', 'operator')),
  from_system_identifier bigint not null,
  from_timeline integer not null,
  to_system_identifier bigint not null,
  to_timeline integer not null,
  -- The newest change in the database before the switch: what happened later may be lost.
  newest_at timestamptz not null,
  -- The newest change that the witness had seen; null without a witness.
  witnessed_at timestamptz,
  switched_at timestamptz not null default clock_timestamp(),
  -- The number of open jobs whose calls count as sent.
  jobs_in_doubt integer not null default 0,
  -- When everything that the providers list since an hour before `newest_at` had been taken up.
  lists_read_at timestamptz,
  -- When jobs were released, by whom, and what happens to messages that were accepted before the switch.
  released_at timestamptz,
  released_by text check (length(released_by) between 1 and 320),
  messages text check (messages in ('send', 'discard')),
  -- When an operator took away the banner.
  acknowledged_at timestamptz,
  acknowledged_by text check (length(acknowledged_by) between 1 and 320),
  constraint database_switches_released check ((released_at is null) = (messages is null))
);

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
end $$;

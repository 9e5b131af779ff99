-- locks: database_switches

-- Lists of a provider that cannot be read. After a switch of the database, what waits for them waits as long as that,
-- or until an operator decides not to wait.
create table failing_lists (
  provider text not null check (length(provider) between 1 and 100),
  list text not null check (length(list) between 1 and 100),
  failing_since timestamptz not null default clock_timestamp(),
  failed_at timestamptz not null default clock_timestamp(),
  -- Why the last attempt failed.
  error text not null check (length(error) <= 500),
  primary key (provider, list)
);

-- When the lists of the providers had been read. What was stored until then is recovered before `lists_read_at`.
alter table database_switches add column listed_at timestamptz;

-- When an operator decided that nothing waits for the lists of the providers any longer, and who. The lists are still
-- read.
alter table database_switches add column lists_waived_at timestamptz;
alter table database_switches add column lists_waived_by text;
alter table database_switches add constraint database_switches_waived
  check ((lists_waived_at is null) = (lists_waived_by is null) and length(lists_waived_by) between 1 and 320) not valid;

-- What waits follows from the switches. Until a switch is recorded completely, calls of open jobs look unsent, so all
-- jobs wait.
create or replace function hold_jobs() returns trigger language plpgsql security definer as $$
begin
  -- The next statement sees the switch that another session has recorded meanwhile.
  perform from lineage for update;
  update lineage l set hold = s.hold, holds_messages_before = s.holds_messages_before from (
    select case when bool_or(recorded_at is null or (released_at is null and kind = 'restore')) then 'all'
        -- A call may have got a new key after two minutes, and providers forget keys after a day.
        when bool_or(waits_for_lists
          and newest_at < greatest(switched_at - interval '2 minutes', now() - interval '22 hours')) then 'creations'
        when bool_or(waits_for_lists) then 'payouts' end as hold,
      max(switched_at) filter (where released_at is null or (messages = 'discard' and discarded_at is null))
        as holds_messages_before
    from (
      select *, lists_read_at is null and lists_waived_at is null as waits_for_lists from database_switches
      where kind <> 'planned'
    ) each_switch
  ) s
  where (l.hold, l.holds_messages_before) is distinct from (s.hold, s.holds_messages_before);
  return null;
end $$;

-- A failover releases itself once nothing waits for the lists.
create trigger database_switches_failover_waived before update of lists_waived_at on database_switches for each row
  when (old.lists_waived_at is null and new.lists_waived_at is not null and new.kind = 'failover'
    and new.released_at is null)
  execute function release_failover();

-- See 0015_settings.sql.
do $$
declare
  each record;
begin
  for each in
    select attrelid::regclass as name, attname from pg_attribute
    where attrelid in ('failing_lists'::regclass, 'database_switches'::regclass) and attnum > 0
      and attstattarget is distinct from 10
  loop
    execute format('alter table %s alter column %I set statistics 10', each.name, each.attname);
  end loop;
  execute format('alter function hold_jobs() set search_path = %I, pg_temp', current_schema());
end $$;
